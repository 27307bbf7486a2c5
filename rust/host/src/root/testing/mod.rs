//! Test doubles of the root's objects, and tests of the whole root with them.

mod faults;
mod faulty_store;
mod stalled_collection;

pub use faulty_store::{ConcurrentChange, Fault, FaultyStore};
