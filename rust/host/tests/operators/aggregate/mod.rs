//! Aggregation by windows of each kind.

mod drawn;
mod examples;
mod grace;
mod model;
mod state;
mod sums;
