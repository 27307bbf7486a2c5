//! The PyO3 binding `holdfast._core`: converts, releases the GIL, maps errors, nothing else.
//!
//! | folder or file | what it has |
//! | --- | --- |
//! | `run.rs`, `process.rs`, `error.rs`, `messages.rs` | the only way from Python into Rust |
//! | `arrow/` | columns in, arrays and batches and streams out |
//! | `serde/` | typed keys and values |
//! | `open_database.rs`, `view.rs` | an open database; its writer and its readers |
//! | `stores/` | a file for each kind of store, and what they share |
//! | `database/` | opening, committing, restoring |
//! | `host/` | the state host and its client |
//! | `reader_settings.rs`, `reader.rs`, `gateway.rs` | reads of a root's state, also over HTTP |
//!
//! A file imports only from its own row and the rows above. The docstrings are in
//! `python/holdfast/_core.pyi`.

mod arrow;
mod database;
mod error;
mod gateway;
mod host;
mod messages;
mod open_database;
mod reader;
mod reader_settings;
mod run;
mod serde;
mod stores;
mod view;

use pyo3::prelude::*;

/// The extension module. All its state is in objects with locks of their own, so it needs no GIL.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::arrow::export::{ArrowArray, ArrowBatch, ArrowReader};
    #[pymodule_export]
    use crate::database::offsets::{read_offsets, remove_offsets, write_offsets};
    #[pymodule_export]
    use crate::database::store_builder::default_segment_interval;
    #[pymodule_export]
    use crate::database::{Database, check_rocksdb_options, check_store_name, open_database};
    #[pymodule_export]
    use crate::gateway::Gateway;
    #[pymodule_export]
    use crate::host::calls::HostCalls;
    #[pymodule_export]
    use crate::host::client::{HostClient, HostOutput};
    #[pymodule_export]
    use crate::host::main::host_main;
    #[pymodule_export]
    use crate::host::root::{
        check_evaluated, check_root, check_store, checkpoint_query, drop_epoch, put_follower,
        read_epochs, read_followers, remove_follower, rewind, verify_root,
    };
    #[pymodule_export]
    use crate::reader::{StateReader, end_scans};
    #[pymodule_export]
    use crate::serde::Serde;
    #[pymodule_export]
    use crate::serde::batch::{decode_batch, decode_reader};
    #[pymodule_export]
    use crate::stores::key_value::{KeyValueIterator, KeyValueStore};
    #[pymodule_export]
    use crate::stores::session::{SessionIterator, SessionStore};
    #[pymodule_export]
    use crate::stores::timestamped::{TimestampedIterator, TimestampedKeyValueStore};
    #[pymodule_export]
    use crate::stores::versioned::{VersionIterator, VersionedKeyValueStore};
    #[pymodule_export]
    use crate::stores::window::{WindowIterator, WindowStore};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        holdfast_core::watch_forks()?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
