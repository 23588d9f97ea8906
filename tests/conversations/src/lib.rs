//! Conversations of a server and a client with the box between them, as scripts that read like TCP's own: README.md.

mod conversation;
pub mod home;
pub mod loaded;
pub mod packet;
pub mod play;
pub mod run;
pub mod script;
