//! What libbpf says by itself.

use libbpf_rs::PrintLevel;

/// Keeps libbpf from writing on standard error what it fails at, as that a pin is not there. All of that comes back as an error, which
/// is reported in our own words or is to be expected: what is pinned goes and comes with other processes.
/// Every command begins with it, and so does what loads programs, for others that use this library.
pub fn silence_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
}
