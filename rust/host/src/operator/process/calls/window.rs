//! Calls of a window store: `put(keys, values, starts[, timestamps])`, `get(keys, starts)`,
//! `find(keys, starts, ends)`, `range(start_key, end_key, start, end, reverse)`, `time()`.

use holdfast_core::column::{Places, WINDOW, WindowedColumns};
use holdfast_core::{Result, Transaction, WindowPut, WindowStore};

use super::arguments::CallArguments;
use super::reply::{Pages, Reply};

/// Executes a call to this store; none for an unknown method.
pub fn call(
    store: &WindowStore,
    stamped: bool,
    tx: &mut Transaction,
    method: &str,
    given: &CallArguments<'_>,
) -> Result<Option<Reply>> {
    Ok(Some(match method {
        "put" => {
            let timestamps = given.optional_times("timestamps")?;
            let rows = given
                .keys("keys")?
                .into_iter()
                .zip(given.values("values")?)
                .zip(given.times("starts")?)
                .enumerate();
            let put = |(row, ((key, value), start))| {
                let timestamp = timestamps
                    .as_ref()
                    .and_then(|times| times.get(row).copied());
                WindowPut {
                    key,
                    value,
                    start,
                    timestamp,
                }
            };
            store.put_batch(tx, rows.map(put))?;
            Reply::done()
        }
        "get" => {
            let (keys, starts) = (given.keys("keys")?, given.times("starts")?);
            let mut places = Places::new(keys.len());
            store.fetch_batch(tx, &keys, &starts, |row, found| places.put(row, found))?;
            Reply::Batch(places.finish_stamped()?)
        }
        "find" => {
            let mut columns = WindowedColumns::of_batch(WINDOW, stamped);
            store.fetch_ranges(
                tx,
                &given.keys("keys")?,
                &given.times("starts")?,
                &given.times("ends")?,
                &mut |row, window, found| {
                    columns.append(row, window, found);
                },
            )?;
            Reply::Batch(columns.finish()?)
        }
        "range" => {
            let (low, high) = (given.bound("start_key")?, given.bound("end_key")?);
            let mut scan = store.fetch_range(
                tx,
                low,
                high,
                given.time("start")?,
                given.time("end")?,
                given.flag("reverse")?,
            )?;
            Reply::Pages(Pages::new(
                WindowedColumns::of_scan(WINDOW, stamped).schema(),
                move |rows| {
                    let mut columns = WindowedColumns::of_scan(WINDOW, stamped);
                    scan.for_each(&mut |window, found| {
                        columns.append(0, window, found);
                        !columns.is_full(rows)
                    })?;
                    columns.finish_scan()
                },
            ))
        }
        "time" => Reply::time(store.stream_time(tx))?,
        _ => return Ok(None),
    }))
}
