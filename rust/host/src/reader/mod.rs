//! Reads the state of a query from outside: from any process that can read the root.
//!
//! A [`StateReader`] finds the newest final epoch (`epochs.rs`), the tables (`table_catalog.rs`)
//! and the partition of each key (`routing/`). It asks the state hosts that serve the partitions
//! (`live.rs`). If they do not answer, it reads copies that it makes from snapshots and log
//! (`copies/`), and moves them on with each new epoch. The changes of a table are read from the log
//! alone (`changes/`). `report/` says what is wrong with each partition.

mod changes;
mod copies;
mod epochs;
mod host_connection;
mod keys;
mod live;
mod read_from;
mod read_source;
mod report;
mod routing;
mod row_stream;
mod sources;
mod state_reader;
mod table_catalog;

pub use changes::EpochSpan;
pub use copies::CacheSettings;
pub use read_from::{AnswerState, Offline, ReadFrom, RowsAtEpoch};
pub use report::{ConditionName, PartitionCondition, PartitionReport, Severity, StateReport};
pub use row_stream::{RowStream, end_scans};
pub use state_reader::StateReader;
pub use table_catalog::{NamedTable, TableDescription};
