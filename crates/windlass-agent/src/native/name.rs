//! What the algorithms are called in the kernel.

use crate::{Error, Result};
use windlass_core::{Algorithm, abi};

/// What names begin with unless another prefix is given.
pub const DEFAULT_PREFIX: &str = "wl_";
/// Length of a congestion control's name in the kernel, without the NUL.
pub(crate) const NAME_MOST: usize = abi::WL_CA_NAME_BYTES as usize - 1;

/// Refuses what does not go before all names; of what does, paths can be made.
pub fn check_prefix(prefix: &str) -> Result<()> {
    let longest = Algorithm::all().map(|a| a.name().len()).max().unwrap_or(0);
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let room = NAME_MOST - longest;
    if prefix.is_empty() || prefix.len() > room || !prefix.chars().all(is_fine) {
        let what = format!("prefix '{prefix}': 1 to {room} lower-case letters, digits and underscores");
        return Err(Error::Invalid(what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_leave_no_room_for_a_name_are_refused() {
        assert!(check_prefix(DEFAULT_PREFIX).is_ok());
        for bad in ["", "way_too_long_prefix", "a b", "../", "W"] {
            assert!(check_prefix(bad).is_err(), "{bad}");
        }
    }
}
