//! Groups in a window store.

use holdfast_core::{Result, Timestamp, Transaction, WindowPut, WindowStore};

use super::windowing::OfGroups;
use crate::codec::row::EncodedRows;
use crate::operator::aggregate::groups::Groups;
use crate::operator::batch_size::BATCH_ROWS;
use crate::operator::input::{InputRows, RowPlace};

/// Returns the rows that have a time, with their keys and times. Counts the others as dropped.
pub fn timed<'a>(
    input: &'a InputRows,
    places: &'a [RowPlace],
    dropped: &'a mut u64,
) -> impl Iterator<Item = (RowPlace, &'a [u8], i64)> {
    places.iter().filter_map(|place| {
        let time = input.time(*place);
        *dropped += u64::from(time.is_none());
        time.map(|time| (*place, input.key_with_nulls(*place), time))
    })
}

/// Reads the states of groups from a window store.
pub fn read(
    store: &WindowStore,
    tx: &mut Transaction,
    groups: &Groups,
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut states = vec![None; groups.count()];
    let (keys, starts): (Vec<&[u8]>, Vec<Timestamp>) = (0..groups.count())
        .map(|group| (groups.key(group), Timestamp(groups.start(group))))
        .unzip();
    store.fetch_batch(tx, &keys, &starts, |n, state| {
        states[n] = state.map(|state| state.value.to_vec())
    })?;
    Ok(states)
}

/// Writes the states of groups into a window store, and deletes the stored groups that are
/// finished.
pub fn write(
    store: &WindowStore,
    tx: &mut Transaction,
    groups: &Groups,
    touched: &[usize],
    state: &EncodedRows,
    stored: &[usize],
    is_finished: impl Fn(usize) -> bool,
) -> Result<()> {
    let put = |group: usize, value| WindowPut {
        key: groups.key(group),
        value,
        start: Timestamp(groups.start(group)),
        timestamp: None,
    };
    let deletes = stored
        .iter()
        .filter(|group| is_finished(**group))
        .map(|group| put(*group, None));
    let puts = touched
        .iter()
        .filter(|group| !is_finished(**group))
        .map(|group| put(*group, Some(state.get(*group))));
    store.put_batch(tx, deletes.chain(puts))
}

/// Passes the stored groups that start between two times, both included, to `f`, a batch at a time.
/// Groups in `left_out` are not passed.
pub fn in_batches(
    store: &WindowStore,
    tx: &mut Transaction,
    (first, last): (i64, i64),
    left_out: &Groups,
    f: &mut OfGroups<'_>,
) -> Result<()> {
    let mut scan = store.fetch_range(tx, None, None, Timestamp(first), Timestamp(last), false)?;
    loop {
        let mut found = Groups::default();
        let has_more = scan.for_each(&mut |window, _| {
            if !left_out.has(window.key, window.start.0) {
                found.enter(window.key, window.start.0);
            }
            found.count() < BATCH_ROWS
        })?;
        f(&found, tx)?;
        if !has_more {
            return Ok(());
        }
    }
}

/// Deletes the stored windows that start between two times, both included, in batches.
pub fn sweep(store: &WindowStore, tx: &mut Transaction, starts: (i64, i64)) -> Result<()> {
    if starts.0 > starts.1 {
        return Ok(());
    }
    in_batches(store, tx, starts, &Groups::default(), &mut |found, tx| {
        let delete = |group| WindowPut {
            key: found.key(group),
            value: None,
            start: Timestamp(found.start(group)),
            timestamp: None,
        };
        store.put_batch(tx, (0..found.count()).map(delete))
    })
}

/// Calls `f` with the key and start of each stored window that starts in a range of times.
pub fn stored(
    store: &WindowStore,
    tx: &mut Transaction,
    starts: (i64, i64),
    mut f: impl FnMut(&[u8], i64),
) -> Result<()> {
    if starts.0 > starts.1 {
        return Ok(());
    }
    let mut scan = store.fetch_range(
        tx,
        None,
        None,
        Timestamp(starts.0),
        Timestamp(starts.1),
        false,
    )?;
    scan.for_each(&mut |found, _| {
        f(found.key, found.start.0);
        true
    })?;
    Ok(())
}
