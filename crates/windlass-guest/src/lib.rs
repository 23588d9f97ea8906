//! Couples the flows of virtual machines: an agent in each guest, a controller on their host, a port between them.
//!
//! [`wire`] is what passes over the port, [`Session`] the guest's side of it and [`Controller`] the host's, both without
//! clocks and files; [`agent`] and [`serve`] put them at their ports. `docs/guests.md` has the user's side.

pub mod agent;
mod connect;
pub mod controller;
mod error;
pub mod guests;
mod kernel;
pub mod port;
pub mod serve;
pub mod session;
pub mod wire;

pub use controller::{Config, Controller, GuestId, GuestInfo};
pub use error::{Error, Result};
pub use session::Session;
