//! Aggregation by windows of each kind.

mod conditions;
mod drawn;
mod examples;
mod grace;
mod model;
mod picks;
mod ranked;
mod state;
mod sums;
