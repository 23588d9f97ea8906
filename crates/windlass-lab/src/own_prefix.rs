//! Names of congestion controls are the same in all network namespaces, so each run of a process registers its own.

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// Five digits to the base 36 are enough for every process id of Linux (2^22).
const PROCESS_DIGITS: u32 = 5;
/// Of the whole prefix.
pub const OWN_PREFIX_LETTERS: usize = PROCESS_DIGITS as usize + 2;

/// What the names begin with that this process registers for its `number`-th run of a `kind`, modulo 36. Seven letters, which leave
/// eight of a congestion control's name for the algorithm's (`WL_ALG_NAME_LETTERS` in `core/alg/list.h`).
pub fn own_prefix(kind: char, number: u32) -> String {
    let digit = |value: u32| char::from(DIGITS[(value % 36) as usize]);
    let process = std::process::id();
    let process: String = (0..PROCESS_DIGITS).rev().map(|i| digit(process / 36_u32.pow(i))).collect();
    format!("{kind}{process}{}", digit(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_congestion_controls_leave_room_for_a_name_and_differ() {
        assert_eq!(own_prefix('w', 0).len(), OWN_PREFIX_LETTERS);
        assert!(own_prefix('w', 35).ends_with('z'));
        assert_ne!(own_prefix('w', 0), own_prefix('w', 1));
        assert_ne!(own_prefix('w', 0), own_prefix('g', 0));
    }
}
