//! The state host as Python uses it: its client, its process, and commands on a root.

mod call_argument;
pub mod calls;
pub mod client;
pub mod main;
pub mod root;
