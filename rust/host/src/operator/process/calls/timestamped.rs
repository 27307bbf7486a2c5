//! Calls of a timestamped key-value store: those of a key-value store, with
//! `put(keys, values, timestamps)`.

use holdfast_core::column::{LastBatch, Places, stamped_batch, stamped_schema};
use holdfast_core::{NO_TIMESTAMP, Result, StampedScan, TimestampedKeyValueStore, Transaction};

use super::arguments::CallArguments;
use super::prefetch;
use super::reply::{Pages, Reply};

/// Executes a call to this store; none for an unknown method.
pub fn call(
    store: &TimestampedKeyValueStore,
    tx: &mut Transaction,
    method: &str,
    given: &CallArguments<'_>,
) -> Result<Option<Reply>> {
    Ok(Some(match method {
        "put" => {
            let rows = given
                .keys("keys")?
                .into_iter()
                .zip(given.values("values")?)
                .zip(given.times("timestamps")?);
            for ((key, value), timestamp) in rows {
                store.put(tx, key, value, timestamp)?;
            }
            Reply::done()
        }
        "delete" => {
            for key in given.keys("keys")? {
                store.put(tx, key, None, NO_TIMESTAMP)?;
            }
            Reply::done()
        }
        "delete_range" => {
            // Each key is deleted by itself: the log has no record for the delete of a range.
            store
                .range(tx, given.bound("start")?, given.bound("end")?, false)?
                .each_key(&mut |key| store.put(tx, key, None, NO_TIMESTAMP))?;
            Reply::done()
        }
        "get" => {
            let keys = given.keys("keys")?;
            let mut places = Places::new(keys.len());
            store.get_batch(tx, &keys, |row, found| places.put(row, found))?;
            Reply::Batch(places.finish_stamped()?)
        }
        "get_ahead" => prefetch::reply(&given.keys("keys")?, |keys, found| {
            store.get_batch(tx, keys, found)
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

fn pages(mut scan: StampedScan) -> Reply {
    let mut last = LastBatch::default();
    Reply::Pages(Pages::new(stamped_schema(), move |rows| {
        stamped_batch(&mut scan, rows, &stamped_schema(), &mut last)
    }))
}
