//! Windows: how rows are put into groups, where the groups' states are kept, and which of them make
//! an answer.
//!
//! `by_key.rs` none, one group a key · `hopping.rs` windows of one length at fixed places ·
//! `session.rs` windows between pauses · `sliding.rs` windows that begin and end at rows ·
//! `clock.rs` what is late and what is closed.

mod by_key;
mod clock;
mod hopping;
mod session;
mod sliding;

pub use by_key::ByKey;
pub use clock::{Clock, Progress};
pub use hopping::{Hopping, HoppingWindow};
pub use session::Sessions;
pub use sliding::Sliding;

use std::ops::Range;

use holdfast_core::{Database, Result, Timestamp, Transaction, WindowPut, WindowStore};

use super::accumulator::{Assigned, Merge};
use super::groups::Groups;
use super::spec::{Spec, Window};
use crate::codec::row::EncodedRows;
use crate::operator::Counts;
use crate::operator::batch::BATCH_ROWS;
use crate::operator::rows::{Place, Rows};

/// The store of the groups' states.
pub const GROUPS: &str = "groups";

/// The windows of one epoch.
pub trait Windows {
    /// Puts rows that are in time into groups, in their order, and counts the others.
    ///
    /// # Errors
    /// The store's.
    fn assign(
        &mut self,
        input: &Rows,
        places: &[Place],
        tx: &mut Transaction,
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Result<Vec<Assigned>>;

    /// Whether the window of a key that starts then was closed before the epoch.
    ///
    /// # Errors
    /// The store's.
    fn was_over(&self, _key: &[u8], _start: i64, _tx: &mut Transaction) -> Result<bool> {
        Ok(false)
    }

    /// Deletes the stored windows that were closed before the epoch.
    ///
    /// # Errors
    /// The store's.
    fn sweep(&self, _tx: &mut Transaction) -> Result<()> {
        Ok(())
    }

    /// Enters the stored groups that the answers need, behind those of the rows, and, if `items`
    /// are kept beside them, those that are not needed any more.
    ///
    /// # Errors
    /// The store's.
    fn enter_stored(
        &mut self,
        _items: bool,
        _tx: &mut Transaction,
        _groups: &mut Groups,
    ) -> Result<()> {
        Ok(())
    }

    /// What is kept of the groups; none for a new one.
    ///
    /// # Errors
    /// The store's.
    fn read(&mut self, tx: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>>;

    /// The groups that become part of others.
    fn merges(&self) -> &[Merge] {
        &[]
    }

    /// Keeps the states of the groups that have new rows. Windows that come out as they close are
    /// deleted then: a retention of the store could not know how long, since the grace may have
    /// been another when their rows came.
    ///
    /// # Errors
    /// The store's.
    fn write(
        &self,
        tx: &mut Transaction,
        groups: &Groups,
        touched: &[usize],
        state: &EncodedRows,
    ) -> Result<()>;

    /// What comes out, in no particular order.
    fn answers(&self, groups: &Groups, touched: &[usize]) -> Answers;

    /// The groups of which nothing is needed any more.
    fn gone(&self, groups: &Groups) -> Vec<usize>;
}

/// The windows of an aggregation.
///
/// # Errors
/// The task's for a store that it has not.
pub fn windows(spec: &Spec, db: &Database, clock: Clock) -> Result<Box<dyn Windows>> {
    Ok(match spec.window {
        None => Box::new(ByKey::new(db.key_value(GROUPS)?, clock)),
        Some(Window::Hopping(window)) => {
            Box::new(Hopping::new(db.window(GROUPS)?, window, clock, spec.emit))
        }
        Some(Window::Sliding { length }) => {
            Box::new(Sliding::new(db.window(GROUPS)?, length, clock, spec.emit))
        }
        Some(Window::Session { gap }) => {
            Box::new(Sessions::new(db.session(GROUPS)?, gap, clock, spec.emit))
        }
    })
}

/// Rows of the result: each of a window and the union of some groups of one key.
#[derive(Default)]
pub struct Answers {
    /// The rows.
    pub rows: Vec<Answer>,
    /// Groups; those of an answer lie side by side, in the order of time.
    parts: Vec<usize>,
}

/// A row of the result.
pub struct Answer {
    /// The window's start.
    pub start: i64,
    /// The window's end.
    pub end: i64,
    parts: Range<usize>,
}

impl Answers {
    /// Adds the answer of a window: of one group.
    pub fn push(&mut self, start: i64, end: i64, group: usize) {
        self.parts.push(group);
        self.rows.push(Answer {
            start,
            end,
            parts: self.parts.len() - 1..self.parts.len(),
        });
    }

    /// The groups of an answer.
    pub fn groups(&self, answer: &Answer) -> &[usize] {
        &self.parts[answer.parts.clone()]
    }

    /// Puts the answers in the order of (start, key): that in which they come out.
    pub fn sort(&mut self, groups: &Groups) {
        let Self { rows, parts } = self;
        rows.sort_unstable_by_key(|answer| (answer.start, groups.key(parts[answer.parts.start])));
    }
}

/// Rows with their keys and times; those without a time are counted.
fn timed<'a>(
    input: &'a Rows,
    places: &'a [Place],
    dropped: &'a mut u64,
) -> impl Iterator<Item = (Place, &'a [u8], i64)> {
    places.iter().filter_map(|place| {
        let batch = &input.inputs[place.input()];
        let time = batch.time(place.row());
        *dropped += u64::from(time.is_none());
        time.map(|time| (*place, batch.keys.with_nulls(place.row()), time))
    })
}

/// What a window store has of the groups.
fn read(
    store: &WindowStore,
    tx: &mut Transaction,
    groups: &Groups,
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut kept = vec![None; groups.count()];
    let (keys, starts): (Vec<&[u8]>, Vec<Timestamp>) = (0..groups.count())
        .map(|group| (groups.key(group), Timestamp(groups.start(group))))
        .unzip();
    store.fetch_batch(tx, &keys, &starts, |n, state| {
        kept[n] = state.map(|state| state.value.to_vec())
    })?;
    Ok(kept)
}

/// Keeps the states of groups in a window store, and deletes those of the stored groups that are of
/// no use any more.
fn write(
    store: &WindowStore,
    tx: &mut Transaction,
    groups: &Groups,
    touched: &[usize],
    state: &EncodedRows,
    stored: &[usize],
    is_over: impl Fn(usize) -> bool,
) -> Result<()> {
    let put = |group: usize, value| WindowPut {
        key: groups.key(group),
        value,
        start: Timestamp(groups.start(group)),
        timestamp: None,
    };
    let deletes = stored
        .iter()
        .filter(|group| is_over(**group))
        .map(|group| put(*group, None));
    let puts = touched
        .iter()
        .filter(|group| !is_over(**group))
        .map(|group| put(*group, Some(state.get(*group))));
    store.put_batch(tx, deletes.chain(puts))
}

/// Deletes the stored windows that start up to a time, a batch of them at a time.
fn sweep(store: &WindowStore, tx: &mut Transaction, last: i64) -> Result<()> {
    let mut scan = store.fetch_range(tx, None, None, Timestamp::MIN, Timestamp(last), false)?;
    loop {
        let mut found: Vec<(Vec<u8>, Timestamp)> = Vec::new();
        scan.for_each(&mut |window, _| {
            found.push((window.key.to_vec(), window.start));
            found.len() < BATCH_ROWS
        })?;
        if found.is_empty() {
            return Ok(());
        }
        store.put_batch(
            tx,
            found.iter().map(|(key, start)| WindowPut {
                key,
                value: None,
                start: *start,
                timestamp: None,
            }),
        )?;
    }
}

/// The stored windows that start in a range of times, all keys together: hands key and start to
/// `f`.
fn stored(
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
