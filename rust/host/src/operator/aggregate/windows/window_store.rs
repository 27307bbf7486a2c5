//! Groups in a window store.

use holdfast_core::{Result, Timestamp, Transaction, WindowPut, WindowStore};

use super::windowing::{OfGroups, OfStates};
use crate::codec::byte_list::ByteList;
use crate::codec::row::EncodedRows;
use crate::operator::aggregate::groups::Groups;
use crate::operator::batch_size::{BATCH_BYTES, BATCH_ROWS};
use crate::operator::input::{InputRows, RowPlace};

/// About what a group takes in memory beside its key and its state, in bytes: its number, its
/// columns and its row of the result.
const GROUP_BYTES: usize = 128;

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
///
/// The store has no group that starts after its stream time. Such groups are new and are not looked
/// up.
pub fn read(
    store: &WindowStore,
    tx: &mut Transaction,
    groups: &Groups,
) -> Result<Vec<Option<Vec<u8>>>> {
    let newest = store.stream_time(tx);
    let wanted: Vec<usize> = (0..groups.count())
        .filter(|group| Some(Timestamp(groups.start(*group))) <= newest)
        .collect();
    let (keys, starts): (Vec<&[u8]>, Vec<Timestamp>) = wanted
        .iter()
        .map(|group| (groups.key(*group), Timestamp(groups.start(*group))))
        .unzip();
    let mut states = vec![None; groups.count()];
    store.fetch_batch(tx, &keys, &starts, |n, state| {
        states[wanted[n]] = state.map(|state| state.value.to_vec())
    })?;
    Ok(states)
}

/// Writes the states of groups into a window store, and deletes the stored groups that are
/// finished. `touched` is in the order of the groups' starts.
///
/// Stored groups are replaced before new ones are put: a new group may raise the stream time, and
/// the retention could then refuse an older group.
pub fn write(
    store: &WindowStore,
    tx: &mut Transaction,
    groups: &Groups,
    touched: &[usize],
    state: &EncodedRows,
    is_stored: impl Fn(usize) -> bool,
    is_finished: impl Fn(usize) -> bool,
) -> Result<()> {
    let put = |group: usize, value| WindowPut {
        key: groups.key(group),
        value,
        start: Timestamp(groups.start(group)),
        timestamp: None,
    };
    let deletes = (0..groups.count())
        .filter(|group| is_stored(*group) && is_finished(*group))
        .map(|group| put(group, None));
    store.put_batch(tx, deletes)?;
    let (stored, new): (Vec<usize>, Vec<usize>) = touched
        .iter()
        .filter(|group| !is_finished(**group))
        .partition(|group| is_stored(**group));
    let put_state = |group: &usize| put(*group, Some(state.get(*group)));
    store.replace_batch(tx, stored.iter().map(put_state))?;
    store.put_batch(tx, new.iter().map(put_state))
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

/// Passes the stored groups that start between two times, both included, to `f` with their states,
/// a batch at a time.
pub fn stored_states(
    store: &WindowStore,
    tx: &mut Transaction,
    (first, last): (i64, i64),
    f: &mut OfStates<'_>,
) -> Result<()> {
    if first > last {
        return Ok(());
    }
    let mut scan = store.fetch_range(tx, None, None, Timestamp(first), Timestamp(last), false)?;
    loop {
        let (mut found, mut states) = (Groups::default(), ByteList::default());
        let has_more = scan.for_each(&mut |window, state| {
            found.enter(window.key, window.start.0);
            states.push(state.value);
            found.count() < BATCH_ROWS && states.total_bytes() < BATCH_BYTES
        })?;
        f(&found, &states)?;
        if !has_more {
            return Ok(());
        }
    }
}

/// Returns the stored groups that start between two times, both included. `hold` gets the bytes of
/// memory that each takes; none once it returns false.
pub fn stored_that_fit(
    store: &WindowStore,
    tx: &mut Transaction,
    (first, last): (i64, i64),
    hold: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<Groups>> {
    let mut found = Groups::default();
    if first > last {
        return Ok(Some(found));
    }
    let mut scan = store.fetch_range(tx, None, None, Timestamp(first), Timestamp(last), false)?;
    let is_stopped = scan.for_each(&mut |window, state| {
        found.enter(window.key, window.start.0);
        hold(window.key.len() + state.value.len() + GROUP_BYTES)
    })?;
    Ok((!is_stopped).then_some(found))
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

#[cfg(test)]
mod tests {
    use holdfast_core::{Commit, Database, DatabaseOptions, FigureValue, StoreKind, StoreSpec};
    use proptest::prelude::*;

    use super::*;

    const RETENTION: i64 = 30;

    fn database() -> std::sync::Arc<Database> {
        let kind = StoreKind::Window {
            retention: RETENTION,
            window_size: 0,
            retain_duplicates: false,
            timestamped: false,
        };
        Database::open_in_memory(&[StoreSpec::new("w", kind)], DatabaseOptions::default())
            .expect("opens")
    }

    /// Returns how many windows have been looked up.
    fn looked_up(db: &Database) -> Option<FigureValue> {
        let metrics = db.metrics().expect("figures");
        metrics.of_store("w", "fetch-batch-records-total")
    }

    proptest! {
        #[test]
        fn states_are_those_of_a_look_up_of_each_group(
            epochs in prop::collection::vec(
                prop::collection::vec((0..3_u8, -20..60_i64, any::<bool>()), 0..12), 1..6),
        ) {
            let db = database();
            let store = db.window("w").expect("a store");
            for (n, epoch) in epochs.iter().enumerate() {
                let mut tx = db.begin().expect("begins");
                let mut groups = Groups::default();
                for (key, start, _) in epoch {
                    groups.enter(&[*key], *start);
                }
                let found = read(&store, &mut tx, &groups).expect("reads");
                for (group, found) in found.into_iter().enumerate() {
                    let start = Timestamp(groups.start(group));
                    let expected = store.fetch(&mut tx, groups.key(group), start, |state| {
                        state.map(|state| state.value.to_vec())
                    });
                    prop_assert_eq!(found, expected.expect("reads"));
                }
                let value = [n as u8];
                let puts = epoch.iter().map(|(key, start, is_put)| WindowPut {
                    key: std::slice::from_ref(key),
                    value: is_put.then_some(value.as_slice()),
                    start: Timestamp(*start),
                    timestamp: None,
                });
                store.put_batch(&mut tx, puts).expect("puts");
                db.commit_transaction(tx, Commit::default()).expect("commits");
            }
        }
    }

    #[test]
    fn groups_that_are_newer_than_the_store_are_not_looked_up() {
        let db = database();
        let store = db.window("w").expect("a store");
        let mut tx = db.begin().expect("begins");
        let mut groups = Groups::default();
        for start in 10..20 {
            groups.enter(b"k", start);
        }
        let read = |tx: &mut Transaction, groups: &Groups| {
            let states = read(&store, tx, groups).expect("reads");
            (states.iter().flatten().count(), looked_up(&db))
        };
        assert_eq!(read(&mut tx, &groups), (0, Some(FigureValue::Whole(0))));
        let put = WindowPut {
            key: b"k",
            value: Some(b"state"),
            start: Timestamp(12),
            timestamp: None,
        };
        store.put(&mut tx, put).expect("puts");
        assert_eq!(read(&mut tx, &groups), (1, Some(FigureValue::Whole(3))));
    }
}
