//! The message of a thread's panic.

use std::any::Any;

/// A thread's message as it panicked.
pub(crate) fn panic_message(why: &(dyn Any + Send)) -> &str {
    let literal = || why.downcast_ref::<&str>().copied();
    why.downcast_ref::<String>().map(String::as_str).or_else(literal).unwrap_or("without a word")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{self, panic_any};

    #[test]
    fn a_panic_is_reported_in_its_words() {
        let words = |f: fn()| panic_message(&*panic::catch_unwind(f).expect_err("a panic")).to_string();
        assert_eq!(words(|| panic_any("a literal")), "a literal");
        assert_eq!(words(|| panic_any(String::from("a text"))), "a text");
        assert_eq!(words(|| panic_any(7)), "without a word");
    }
}
