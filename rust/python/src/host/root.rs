//! Commands on the root of a state.

use crate::run::run;
use holdfast_core::{Error, ErrorKind, Process};
use holdfast_host::protocol::{Epoch, OperatorName};
use holdfast_host::root::{FollowerName, Root, StorageOptions, VerificationProgress};
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// Checks that a root can be read and written, and that its object store never creates an object
/// twice.
#[pyfunction]
pub fn check_root(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
) -> PyResult<()> {
    run(py, Process::current(), || {
        Root::open(root, &StorageOptions(storage_options))?
            .identity
            .probe()
    })
}

/// Puts a test object into a root, and removes it. Returns whether a second create was refused, and
/// the time of the put by the store's clock, in epoch milliseconds.
#[pyfunction]
pub fn check_store(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
) -> PyResult<(bool, Option<i64>)> {
    run(py, Process::current(), || {
        let found = Root::existing(root, &StorageOptions(storage_options))?.check_store()?;
        Ok((found.refuses_second, found.put_at))
    })
}

/// Returns the id of the query whose checkpoint is in a root; `None` if there is no checkpoint.
#[pyfunction]
pub fn checkpoint_query(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
) -> PyResult<Option<String>> {
    run(py, Process::current(), || {
        Root::existing(root, &StorageOptions(storage_options))?
            .spark
            .query_id()
    })
}

/// Returns the newest epochs of a root's log, oldest first: a JSON array of what happened in each.
///
/// `epoch` selects one epoch. `last` is the maximum number of epochs.
#[pyfunction]
pub fn read_epochs(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
    epoch: Option<i64>,
    last: usize,
) -> PyResult<String> {
    run(py, Process::current(), || {
        Root::existing(root, &StorageOptions(storage_options))?
            .progress_json(epoch.map(Epoch), last)
    })
}

/// Checks that operators have staged all their partitions in an epoch.
#[pyfunction]
pub fn check_evaluated(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
    epoch: i64,
    operators: Vec<String>,
    partitions: u32,
) -> PyResult<()> {
    run(py, Process::current(), || {
        let operators: Vec<OperatorName> = operators
            .iter()
            .map(OperatorName::new)
            .collect::<Result<_, _>>()?;
        Root::open(root, &StorageOptions(storage_options))?
            .decisions
            .check_evaluated(Epoch(epoch), &operators, partitions)
    })
}

/// Runs `holdfast epoch drop`; returns the claimed run and the number of removed objects, or None
/// if there was nothing to remove.
#[pyfunction]
pub fn drop_epoch(
    py: Python<'_>,
    root: &str,
    epoch: i64,
    storage_options: BTreeMap<String, String>,
) -> PyResult<Option<(u64, usize)>> {
    run(py, Process::current(), || {
        let removed =
            Root::existing(root, &StorageOptions(storage_options))?.drop_epoch(Epoch(epoch))?;
        Ok(removed.map(|removed| (removed.run.0, removed.objects)))
    })
}

/// Runs `holdfast rewind`; returns the claimed run and the number of removed objects.
#[pyfunction]
pub fn rewind(
    py: Python<'_>,
    root: &str,
    epoch: i64,
    storage_options: BTreeMap<String, String>,
) -> PyResult<(u64, usize)> {
    run(py, Process::current(), || {
        let removed =
            Root::existing(root, &StorageOptions(storage_options))?.rewind(Epoch(epoch))?;
        Ok((removed.run.0, removed.objects))
    })
}

/// Records that a follower needs the changes of epoch `first` and of all later epochs.
#[pyfunction]
pub fn put_follower(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
    name: &str,
    first: i64,
) -> PyResult<()> {
    run(py, Process::current(), || {
        let name = FollowerName::new(name)?;
        Root::existing(root, &StorageOptions(storage_options))?
            .followers
            .put(&name, Epoch(first))
    })
}

/// Returns the followers by name, each with the first epoch that it needs.
#[pyfunction]
pub fn read_followers(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
) -> PyResult<Vec<(String, i64)>> {
    run(py, Process::current(), || {
        let root = Root::existing(root, &StorageOptions(storage_options))?;
        root.identity.query()?;
        let followers = root.followers.list()?.into_iter();
        Ok(followers
            .map(|(name, first)| (name.to_string(), first.0))
            .collect())
    })
}

/// Removes a follower; returns false if there is none of this name.
#[pyfunction]
pub fn remove_follower(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
    name: &str,
) -> PyResult<bool> {
    run(py, Process::current(), || {
        let name = FollowerName::new(name)?;
        let root = Root::existing(root, &StorageOptions(storage_options))?;
        root.identity.query()?;
        root.followers.remove(&name)
    })
}

/// Runs `holdfast verify`; returns the report as JSON.
///
/// `progress` is called with the steps that are done, all steps, and the objects that were read. An
/// exception that it raises ends the verification.
#[pyfunction]
pub fn verify_root(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let mut raised = None;
    let report = run(py, Process::current(), || {
        let mut show = |at: VerificationProgress| {
            let called = Python::attach(|py| {
                progress
                    .call1(py, (at.done, at.total, at.objects))
                    .map(drop)
            });
            called.map_err(|error| {
                raised = Some(error);
                Error::new(ErrorKind::InvalidState, "the verification was ended")
            })
        };
        Root::existing(root, &StorageOptions(storage_options))?.verify_json(&mut show)
    });
    match raised {
        Some(error) => Err(error),
        None => report,
    }
}
