//! Offsets between Python and the engine, and the text files that hold them for user stores.

use crate::run::run;
use crate::view::{InputOffsets, from_python};
use holdfast_core::{Offset, OffsetChange, Process, TopicPartition};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Topic, partition and offset. Without an offset, the partition's offset is removed.
pub type ChangelogOffsets = Vec<(String, i32, Option<i64>)>;

/// Converts offsets for Python.
pub fn to_python(offsets: impl IntoIterator<Item = (TopicPartition, Offset)>) -> InputOffsets {
    offsets
        .into_iter()
        .map(|(tp, offset)| (tp.topic, tp.partition, offset.0))
        .collect()
}

/// Converts the offsets of a commit: `None` keeps the offsets, an empty list removes all.
pub fn offset_change(offsets: Option<ChangelogOffsets>) -> OffsetChange {
    match offsets {
        None => OffsetChange::Keep,
        Some(offsets) if offsets.is_empty() => OffsetChange::Forget,
        Some(offsets) => OffsetChange::Set(
            offsets
                .into_iter()
                .map(|(topic, partition, offset)| {
                    (TopicPartition { topic, partition }, offset.map(Offset))
                })
                .collect(),
        ),
    }
}

/// Returns the offsets in a text file; `None` if there is no file.
#[pyfunction]
pub fn read_offsets(py: Python<'_>, path: PathBuf) -> PyResult<Option<InputOffsets>> {
    let offsets = run(py, Process::of_engine(), || {
        holdfast_core::read_offsets(&path)
    })?;
    Ok(offsets.map(to_python))
}

/// Writes a text file of offsets atomically.
#[pyfunction]
pub fn write_offsets(py: Python<'_>, path: PathBuf, offsets: InputOffsets) -> PyResult<()> {
    run(py, Process::of_engine(), || {
        holdfast_core::write_offsets(&path, &from_python(offsets).collect())
    })
}

/// Removes a text file of offsets, if there is one. The removal is durable on return.
#[pyfunction]
pub fn remove_offsets(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    run(py, Process::of_engine(), || {
        holdfast_core::remove_offsets(&path)
    })
}
