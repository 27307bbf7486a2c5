//! The gateway as a server.

mod access;
mod connections;
mod gateway;
mod router;

pub use gateway::Gateway;
