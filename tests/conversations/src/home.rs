//! What a conversation is held with: a home of the box, as its runner sees it.

use anyhow::Result;

/// How the box treats all flows from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It controls them.
    Control,
    /// It only watches them.
    Watch,
    /// It leaves them alone.
    Off,
}

/// A frame that the box has sent of its own accord.
#[derive(Clone, Debug)]
pub struct Sent {
    /// All of it, from the Ethernet header on.
    pub frame: Vec<u8>,
    /// Towards the server, or the client.
    pub is_to_server: bool,
}

/// One home of the box. Its time stands still but for [`Home::set_now`].
pub trait Home {
    /// It is so late from now on, on a clock that starts anywhere and never goes back.
    fn set_now(&mut self, now_us: u64) -> Result<()>;

    /// A frame comes by. Returns what goes on in its place; none: it is absorbed. `gso_bytes`: of each segment of a super-packet, or 0.
    fn pass(&mut self, is_from_server: bool, frame: &[u8], gso_bytes: u32) -> Result<Option<Vec<u8>>>;

    /// One round of the box's clock. Returns what it has sent in it.
    fn tick(&mut self) -> Result<Vec<Sent>>;

    /// Changes how all flows are treated, and whether those of senders that pace themselves are controlled like others; those that are open
    /// follow at their next ACK.
    fn set_policy(&mut self, mode: Mode, controls_paced: bool) -> Result<()>;

    /// Number of flows that the box knows.
    fn flows(&mut self) -> Result<usize>;
}
