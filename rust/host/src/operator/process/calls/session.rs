//! Calls of a session store: `put(keys, starts, ends[, values])`, `get(keys, starts, ends)`,
//! `find(keys, ends, starts)`, `range(start_key, end_key, end, start, reverse)`, `time()`.

use holdfast_core::column::{Places, SESSION, WindowedColumns};
use holdfast_core::{Result, SessionQuery, SessionStore, Transaction, WindowedKey};

use super::arguments::CallArguments;
use super::reply::{Pages, Reply, without_timestamp};

/// Executes a call to this store; none for an unknown method.
pub fn call(
    store: &SessionStore,
    tx: &mut Transaction,
    method: &str,
    given: &CallArguments<'_>,
) -> Result<Option<Reply>> {
    Ok(Some(match method {
        "put" => {
            let sessions = sessions(given)?;
            let values = given
                .optional_values("values")?
                .unwrap_or_else(|| vec![None; sessions.len()]);
            let puts: Vec<_> = sessions.into_iter().zip(values).collect();
            store.put_batch(tx, &puts)?;
            Reply::done()
        }
        "get" => {
            let sessions = sessions(given)?;
            let mut places = Places::new(sessions.len());
            store.fetch_batch(tx, &sessions, |row, value| {
                places.put(row, value.map(without_timestamp))
            })?;
            Reply::Batch(places.finish_stamped()?)
        }
        "find" => {
            let mut columns = WindowedColumns::of_batch(SESSION, false);
            store.find_batch(
                tx,
                &given.keys("keys")?,
                &given.times("ends")?,
                &given.times("starts")?,
                &mut |row, session, value| {
                    columns.append(row, session, without_timestamp(value));
                },
            )?;
            Reply::Batch(columns.finish()?)
        }
        "range" => {
            let query = SessionQuery {
                key_from: given.bound("start_key")?,
                key_to: given.bound("end_key")?,
                earliest_end: given.time("end")?,
                latest_start: given.time("start")?,
                reverse: given.flag("reverse")?,
            };
            let mut scan = store.find_sessions(tx, query)?;
            Reply::Pages(Pages::new(
                WindowedColumns::of_scan(SESSION, false).schema(),
                move |rows| {
                    let mut columns = WindowedColumns::of_scan(SESSION, false);
                    scan.for_each(&mut |session, value| {
                        columns.append(0, session, without_timestamp(value));
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

fn sessions<'a>(given: &CallArguments<'a>) -> Result<Vec<WindowedKey<'a>>> {
    let rows = given
        .keys("keys")?
        .into_iter()
        .zip(given.times("starts")?)
        .zip(given.times("ends")?);
    Ok(rows
        .map(|((key, start), end)| WindowedKey { key, start, end })
        .collect())
}
