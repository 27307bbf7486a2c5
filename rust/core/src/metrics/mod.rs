//! Figures of a database and its stores. A figure that Kafka Streams has, too, has the same name
//! (KIP-471, KIP-607, KIP-1035).
//!
//! A call is counted by one atomic addition. Long work is also timed, and so is every call at the
//! level `Debug`. Rates, means and sizes are computed when figures are read.
//!
//! - `operation.rs`: the counts of a method's calls
//! - `store_counts.rs`: all counts of a store
//! - `counter.rs`: other counts
//! - `window.rs`: the time that rates cover
//! - `figure.rs`: the figures
//! - `level.rs`: how much is measured

mod counter;
mod figure;
mod level;
mod operation;
mod store_counts;
mod window;

pub(crate) use counter::Count;
pub(crate) use figure::Sheet;
pub(crate) use operation::{Call, Calls, Operation, OperationCounts};
pub(crate) use store_counts::{OpenIterator, StoreCounts};
pub(crate) use window::RateWindow;

pub use figure::{Figure, FigureValue};
pub use level::MetricsLevel;
