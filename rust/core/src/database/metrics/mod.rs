//! The figures of a database and of its stores.

mod counts;
mod figures;
mod properties;
mod results;
mod statistics;

pub(super) use counts::DatabaseCounts;
pub use results::{DatabaseMetrics, StoreMetrics};
