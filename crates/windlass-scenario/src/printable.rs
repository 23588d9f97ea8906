//! Text that others have chosen, as a terminal, a log or a table may show it. Names of interfaces and cgroups, and paths, may hold
//! any bytes: raw, an escape sequence could overwrite lines, and a newline could forge one.

use std::{
    fmt::{self, Display, Formatter, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Shows each control character, and each one that changes how its neighbours appear, by its number: `\x1b`, `\u{202e}`.
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // a width is for the whole text
        if f.width().is_some() || f.precision().is_some() {
            let mut shown = String::new();
            write!(Escaped(&mut shown), "{}", self.0)?;
            return f.pad(&shown);
        }
        write!(Escaped(f), "{}", self.0)
    }
}

/// Shows a path as [`Printable`] does, and each byte of it that is no UTF-8 by its number, too: `\xff`.
pub fn printable_path(path: &Path) -> impl Display + '_ {
    Bytes(path.as_os_str().as_bytes())
}

/// A message that may have several lines: all but the first are indented, so that none can pass for a message of its own.
pub fn printable_message(message: &str) -> String {
    let lines: Vec<String> = message.trim_end().split('\n').map(|line| Printable(line).to_string()).collect();
    lines.join("\n  ")
}

struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            c if !is_hidden(c) => self.0.write_char(c),
            c if c.is_ascii() => write!(self.0, "\\x{:02x}", u32::from(c)),
            c => write!(self.0, "\\u{{{:x}}}", u32::from(c)),
        })
    }
}

/// Control characters (C0, DEL and C1, one of which begins escape sequences as well), and those of the format category: they
/// reverse the order of what follows, break lines or cannot be seen.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

struct Bytes<'a>(&'a [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| {
            write!(f, "{}", Printable(chunk.valid()))?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn escape_and_control_characters_are_shown_by_number_and_the_rest_as_it_is() {
        let shown = |text: &str| Printable(text).to_string();
        assert_eq!(shown("a\x1b[31mb"), "a\\x1b[31mb");
        assert_eq!(shown("\0\n\r\t\x7f"), "\\x00\\x0a\\x0d\\x09\\x7f");
        assert_eq!(shown("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(shown("eth0\u{202e}1\u{feff}"), "eth0\\u{202e}1\\u{feff}");
        assert_eq!(shown("Köln-東 dev\\x2d1"), "Köln-東 dev\\x2d1");
    }

    #[test]
    fn widths_count_what_is_shown() {
        assert_eq!(format!("{:<8}|", Printable("a\x1bb")), "a\\x1bb  |");
    }

    #[test]
    fn bytes_of_paths_that_are_no_utf8_are_shown_by_number() {
        let path = Path::new(OsStr::from_bytes(b"/a\xff\x1b/\xc3\xb6"));
        assert_eq!(printable_path(path).to_string(), "/a\\xff\\x1b/ö");
    }

    #[test]
    fn a_newline_in_a_message_begins_no_message() {
        assert_eq!(printable_message("one\nwindlass: \x1b[2Jforged\n"), "one\n  windlass: \\x1b[2Jforged");
    }
}
