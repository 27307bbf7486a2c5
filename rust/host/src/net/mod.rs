//! What goes over a socket between a worker and a host: frames, messages, calls.

pub mod call;
pub mod frame;
pub mod message;
pub mod socket;
