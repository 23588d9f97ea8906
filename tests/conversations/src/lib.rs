//! Conversations of a server and a client with the box between them, as scripts that read like TCP's own: README.md.

mod conversation;
pub mod home;
pub mod loaded;
pub mod native;
pub mod packet;
pub mod pair;
pub mod play;
mod random;
pub mod run;
pub mod script;
