//! Groups in a session store.

use holdfast_core::{Result, SessionQuery, SessionStore, Timestamp, Transaction, WindowedKey};

use crate::operator::aggregate::groups::Groups;
use crate::operator::aggregate::windows::windowing::OfGroups;
use crate::operator::batch_size::BATCH_ROWS;

/// Returns the query for all sessions whose last row has this time or a later one. The result is
/// sorted by the time of the last row.
pub fn ending_from(time: i64) -> SessionQuery<'static> {
    SessionQuery {
        key_from: None,
        key_to: None,
        earliest_end: Timestamp(time),
        latest_start: Timestamp::MAX,
        reverse: false,
    }
}

/// Calls `f` with batches of the stored groups whose last row has a time from `first` to `last`,
/// both inclusive. Groups in `left_out` are skipped.
pub fn in_batches(
    store: &SessionStore,
    tx: &mut Transaction,
    (first, last): (i64, i64),
    left_out: &Groups,
    f: &mut OfGroups<'_>,
) -> Result<()> {
    let mut scan = store.find_sessions(tx, ending_from(first))?;
    loop {
        let (mut found, mut is_in_range) = (Groups::default(), true);
        let has_more = scan.for_each(&mut |session, _| {
            is_in_range = session.end.0 <= last;
            let (key, start) = (session.key, session.start.0);
            if is_in_range && !left_out.has(key, start) {
                found.enter(key, start);
            }
            is_in_range && found.count() < BATCH_ROWS
        })?;
        f(&found, tx)?;
        if !(has_more && is_in_range) {
            return Ok(());
        }
    }
}

/// Deletes, in batches, the closed sessions whose last row has the time `first` or a later one.
/// `is_closed` gets the time of a session's last row.
pub fn sweep(
    store: &SessionStore,
    tx: &mut Transaction,
    first: i64,
    is_closed: impl Fn(i64) -> bool,
) -> Result<()> {
    let mut scan = store.find_sessions(tx, ending_from(first))?;
    let mut is_finished = true;
    while is_finished {
        let mut found: Vec<(Vec<u8>, Timestamp, Timestamp)> = Vec::new();
        // All sessions after an open one are open.
        let has_more = scan.for_each(&mut |session, _| {
            is_finished = is_closed(session.end.0);
            if is_finished {
                found.push((session.key.to_vec(), session.start, session.end));
            }
            is_finished && found.len() < BATCH_ROWS
        })?;
        is_finished &= has_more;
        let sessions = found.iter().map(|(key, start, end)| WindowedKey {
            key,
            start: *start,
            end: *end,
        });
        let deletes: Vec<_> = sessions.map(|session| (session, None)).collect();
        store.put_batch(tx, &deletes)?;
    }
    Ok(())
}
