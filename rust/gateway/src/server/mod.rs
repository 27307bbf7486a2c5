//! The gateway as a server.

mod access;
mod connections;
mod gateway;
mod router;
mod write_limit;

pub use gateway::Gateway;
