//! What emulates the links of a network.

/// What emulates the links of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emulator {
    /// A thread of this process, [`crate::Wan`].
    #[default]
    Own,
    /// The kernel's netem and tbf, where it has them.
    Netem,
}
