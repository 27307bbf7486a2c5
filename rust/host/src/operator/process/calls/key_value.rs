//! Calls of a key-value store: `put(keys, values)`, `get(keys)`, `get_ahead(keys)`, `delete(keys)`,
//! `delete_range(start, end)`, `range(start, end, reverse)`, `prefix(start, end)`, `entries()`.

use holdfast_core::column::{LastBatch, Places, key_value_batch, key_value_schema};
use holdfast_core::{KeyValueStore, Result, Scan, Transaction};

use super::arguments::CallArguments;
use super::prefetch;
use super::reply::{Pages, Reply, without_timestamp};

/// Executes a call to this store. Returns `None` if the method is unknown.
pub fn call(
    store: &KeyValueStore,
    tx: &mut Transaction,
    method: &str,
    given: &CallArguments<'_>,
) -> Result<Option<Reply>> {
    Ok(Some(match method {
        "put" => {
            for (key, value) in given.keys("keys")?.into_iter().zip(given.values("values")?) {
                store.put(tx, key, value)?;
            }
            Reply::done()
        }
        "delete" => {
            for key in given.keys("keys")? {
                store.put(tx, key, None)?;
            }
            Reply::done()
        }
        "delete_range" => {
            // Each key is deleted by itself: the log has no record for the delete of a range.
            store
                .range(tx, given.bound("start")?, given.bound("end")?, false)?
                .each_key(&mut |key| store.put(tx, key, None))?;
            Reply::done()
        }
        "get" => {
            let keys = given.keys("keys")?;
            let mut places = Places::new(keys.len());
            store.get_batch(tx, &keys, |row, value| {
                places.put(row, value.map(without_timestamp))
            })?;
            Reply::Batch(places.finish_stamped()?)
        }
        "get_ahead" => prefetch::reply(&given.keys("keys")?, |keys, found| {
            store.get_batch(tx, keys, |row, value| {
                found(row, value.map(without_timestamp))
            })
        })?,
        "range" => pages(store.range(
            tx,
            given.bound("start")?,
            given.bound("end")?,
            given.flag("reverse")?,
        )?),
        "prefix" => {
            pages(store.prefix_scan(tx, given.key("start")?, given.bound("end")?, false)?)
        }
        "entries" => Reply::number(Some(store.approximate_num_entries(tx)?.cast_signed()))?,
        _ => return Ok(None),
    }))
}

fn pages(mut scan: Scan) -> Reply {
    let mut last = LastBatch::default();
    Reply::Pages(Pages::new(key_value_schema(), move |rows| {
        key_value_batch(&mut scan, rows, &key_value_schema(), &mut last)
    }))
}
