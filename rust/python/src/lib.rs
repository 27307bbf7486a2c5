//! The PyO3 binding `holdfast._core`: converts, releases the GIL, maps errors, nothing else.
//!
//! `run.rs` is the one way from Python into the engine · `error.rs` exceptions · `columns.rs`,
//! `stream.rs` Arrow in · `export.rs` Arrow out · `view.rs` who sees what · `database.rs`,
//! `builder.rs`, `key_value.rs`, `timestamped.rs`, `versioned.rs`, `window.rs`, `session.rs`,
//! `iterator.rs` the stores' nouns · `serde.rs` typed columns · `host.rs` the state host and its
//! client · `calls.rs`, `arguments.rs` what a processor asks of its session. The docstrings live in
//! `python/holdfast/_core.pyi`.

mod arguments;
mod builder;
mod calls;
mod columns;
mod database;
mod error;
mod export;
mod host;
mod iterator;
mod key_value;
mod run;
mod serde;
mod session;
mod stream;
mod timestamped;
mod versioned;
mod view;
mod window;

use pyo3::prelude::*;

/// The extension module. It keeps no state outside its objects, which carry their own locks: no GIL
/// is needed.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::builder::default_segment_interval;
    #[pymodule_export]
    use crate::calls::HostCalls;
    #[pymodule_export]
    use crate::database::{
        Database, check_store_name, check_topic, open_database, read_offsets, remove_offsets,
        write_offsets,
    };
    #[pymodule_export]
    use crate::export::{ArrowArray, ArrowBatch, ArrowReader};
    #[pymodule_export]
    use crate::host::{HostClient, HostOutput, check_root, drop_epoch, host_main, rewind};
    #[pymodule_export]
    use crate::key_value::{KeyValueIterator, KeyValueStore};
    #[pymodule_export]
    use crate::serde::{Serde, decode_batch, decode_reader};
    #[pymodule_export]
    use crate::session::{SessionIterator, SessionStore};
    #[pymodule_export]
    use crate::timestamped::{TimestampedIterator, TimestampedKeyValueStore};
    #[pymodule_export]
    use crate::versioned::{VersionIterator, VersionedKeyValueStore};
    #[pymodule_export]
    use crate::window::{WindowIterator, WindowStore};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        run::watch_forks(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
