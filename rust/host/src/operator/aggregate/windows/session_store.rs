//! Groups in a session store.

use holdfast_core::{Result, SessionQuery, SessionStore, Timestamp, Transaction, WindowedKey};

use super::windowing::OfGroups;
use crate::operator::aggregate::groups::Groups;
use crate::operator::batch_size::BATCH_ROWS;

/// Returns the query of all sessions whose last row has this time or a later one. The sessions are
/// sorted by their last rows.
pub fn ending_from(time: i64) -> SessionQuery<'static> {
    SessionQuery {
        key_from: None,
        key_to: None,
        earliest_end: Timestamp(time),
        latest_start: Timestamp::MAX,
        reverse: false,
    }
}

/// Passes the stored groups whose last row has a time in this range, both included, to `f`, a batch
/// at a time. Groups in `left_out` are not passed.
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

/// Deletes the stored sessions from the one whose last row has the time `first`, in batches, up to
/// the first one that is open. `is_closed` gets the time of a session's last row.
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
