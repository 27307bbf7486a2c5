//! Calls of a versioned store: `apply([is_put,] keys, values, timestamps)`, `get(keys[, as_of])`,
//! `delete(key, timestamp)`, `versions(key, start, end, descending)`,
//! `range(start_key, end_key, start, end)`, `scan([as_of])`, `time()`.

use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_schema::{DataType, Field};
use holdfast_core::column::{LastBatch, VersionColumns, version_batch, version_schema};
use holdfast_core::{Applied, Op, Result, Transaction, VersionScan, VersionedStore};

use super::arguments::CallArguments;
use super::reply::{Pages, Reply};

/// Executes a call to this store. Returns `None` if the method is unknown.
pub fn call(
    store: &VersionedStore,
    tx: &mut Transaction,
    method: &str,
    given: &CallArguments<'_>,
) -> Result<Option<Reply>> {
    Ok(Some(match method {
        "apply" => apply(store, tx, given)?,
        "get" => {
            let (keys, times) = (given.keys("keys")?, given.optional_times("as_of")?);
            let mut columns = VersionColumns::without_keys(keys.len());
            store.get_batch(tx, &keys, times.as_deref(), &mut |_, found| {
                columns.append(None, found)
            })?;
            Reply::Batch(columns.finish(&version_schema(false))?)
        }
        "delete" => {
            let mut columns = VersionColumns::without_keys(1);
            store.delete(tx, given.key("key")?, given.time("timestamp")?, |found| {
                columns.append(None, found)
            })?;
            Reply::Batch(columns.finish(&version_schema(false))?)
        }
        "versions" => pages(store.versions(
            tx,
            given.key("key")?,
            given.time("start")?,
            given.time("end")?,
            !given.flag("descending")?,
        )?),
        "range" => {
            let keys = (given.bound("start_key")?, given.bound("end_key")?);
            pages(store.versions_range(
                tx,
                keys.0,
                keys.1,
                given.time("start")?,
                given.time("end")?,
            )?)
        }
        "scan" => {
            let as_of = given
                .optional_times("as_of")?
                .and_then(|times| times.first().copied());
            pages(store.scan(tx, as_of)?)
        }
        "time" => Reply::time(store.stream_time(tx))?,
        _ => return Ok(None),
    }))
}

fn apply(store: &VersionedStore, tx: &mut Transaction, given: &CallArguments<'_>) -> Result<Reply> {
    let (flags, keys) = (given.optional_flags("is_put")?, given.keys("keys")?);
    let (values, times) = (given.values("values")?, given.times("timestamps")?);
    let op = |row: usize| match flags.as_ref().is_none_or(|flags| flags[row]) {
        true => Op::Put {
            key: keys[row],
            value: values[row],
            timestamp: times[row],
        },
        false => Op::Get {
            key: keys[row],
            as_of: times[row],
        },
    };
    let ops: Vec<Op<'_>> = (0..keys.len()).map(op).collect();
    let mut accepted = BooleanBuilder::with_capacity(ops.len());
    let mut columns = VersionColumns::without_keys(ops.len());
    store.apply_batch(tx, &ops, true, &mut |_, applied| match applied {
        Applied::Put(result) => {
            accepted.append_value(result.accepted);
            columns.append_end(result.valid_to);
        }
        Applied::Get(found) => {
            accepted.append_null();
            columns.append(None, found);
        }
        Applied::Expired => {
            accepted.append_null();
            columns.append(None, None);
        }
    })?;
    Ok(Reply::Batch(columns.finish_behind(
        Field::new("accepted", DataType::Boolean, true),
        Arc::new(accepted.finish()),
    )?))
}

fn pages(mut scan: VersionScan) -> Reply {
    let mut last = LastBatch::default();
    Reply::Pages(Pages::new(version_schema(true), move |rows| {
        version_batch(&mut scan, rows, &version_schema(true), &mut last)
    }))
}
