//! Some keys' rows, new ones and waiting ones, and the pairs that they make.

use holdfast_core::{Result, Transaction};

use super::spec::Spec;
use crate::operator::pairs::Emitter;
use crate::operator::shelf::{Shelf, Waiting};

/// A row of one side of a key.
struct Candidate {
    time: i64,
    row: Waiting,
    /// It came in this epoch.
    is_new: bool,
    /// Its record must be written.
    has_changed: bool,
}

/// One key's rows, each side in the order of time, waiting ones before new ones.
#[derive(Default)]
struct Key {
    left: Vec<Candidate>,
    right: Vec<Candidate>,
}

/// Some keys.
pub struct Matching<'a> {
    spec: &'a Spec,
    names: Vec<&'a [u8]>,
    keys: Vec<Key>,
}

impl<'a> Matching<'a> {
    /// Keys without rows yet.
    pub fn new(spec: &'a Spec, names: Vec<&'a [u8]>) -> Self {
        Self {
            spec,
            keys: names.iter().map(|_| Key::default()).collect(),
            names,
        }
    }

    /// Takes new rows of a key's side, in order.
    pub fn arrived<'b>(
        &mut self,
        key: usize,
        left: bool,
        rows: impl Iterator<Item = (i64, &'b [u8])>,
    ) {
        let new = rows.map(|(time, payload)| {
            let row = Waiting {
                matched: false,
                payload: payload.to_vec(),
            };
            Candidate {
                time,
                row,
                is_new: true,
                has_changed: true,
            }
        });
        side(&mut self.keys[key], left).extend(new);
    }

    /// Adds the waiting rows that new ones may match, and those of new ones' times, which share a
    /// record with them.
    pub fn load(&mut self, tx: &mut Transaction, left: &Shelf, right: &Shelf) -> Result<()> {
        for (shelf, is_left) in [(left, true), (right, false)] {
            let (earlier, later) = if is_left {
                (self.spec.after, self.spec.before)
            } else {
                (self.spec.before, self.spec.after)
            };
            let reach = |key: &Key| {
                let ends = |rows: &[Candidate]| Some((rows.first()?.time, rows.last()?.time));
                let (own, other) = if is_left {
                    (&key.left, &key.right)
                } else {
                    (&key.right, &key.left)
                };
                let other = ends(new(other)).map(|(first, last)| {
                    (first.saturating_sub(earlier), last.saturating_add(later))
                });
                match (ends(new(own)), other) {
                    (Some(own), Some(other)) => (own.0.min(other.0), own.1.max(other.1)),
                    // A key is here because it has new rows of one side at least.
                    (own, other) => own.or(other).unwrap_or((i64::MAX, i64::MIN)),
                }
            };
            let reaches: Vec<(i64, i64)> = self.keys.iter().map(reach).collect();
            let keys = &mut self.keys;
            shelf.find(tx, &self.names, &reaches, &mut |number, time, rows| {
                let waiting = rows.into_iter().map(|row| Candidate {
                    time,
                    row,
                    is_new: false,
                    has_changed: false,
                });
                side(&mut keys[number], is_left).extend(waiting);
            })?;
        }
        for key in &mut self.keys {
            // Stable: of rows of one time and kind the order stays.
            key.left.sort_by_key(|row| (row.time, row.is_new));
            key.right.sort_by_key(|row| (row.time, row.is_new));
        }
        Ok(())
    }

    /// Emits all pairs with a new row, and hands what has changed to the shelves; returns how many
    /// pairs there were.
    pub fn run(
        mut self,
        emitter: &mut Emitter<'_>,
        left: &mut Shelf,
        right: &mut Shelf,
    ) -> Result<u64> {
        let mut pairs = 0;
        for (name, key) in self.names.iter().zip(&mut self.keys) {
            pairs += key.pairs(name, self.spec, emitter)?;
            put(left, name, std::mem::take(&mut key.left));
            put(right, name, std::mem::take(&mut key.right));
        }
        Ok(pairs)
    }
}

fn side(key: &mut Key, left: bool) -> &mut Vec<Candidate> {
    if left { &mut key.left } else { &mut key.right }
}

/// Before waiting rows are there, all are new.
fn new(rows: &[Candidate]) -> &[Candidate] {
    &rows[..rows.iter().take_while(|row| row.is_new).count()]
}

impl Key {
    fn pairs(&mut self, name: &[u8], spec: &Spec, emitter: &mut Emitter<'_>) -> Result<u64> {
        let Self { left, right } = self;
        let mut pairs = 0;
        let mut pair = |ours: &mut Candidate, theirs: &mut Candidate| {
            pairs += 1;
            for (row, is_left) in [(&mut *ours, true), (&mut *theirs, false)] {
                // Sides whose rows never go out alone need not remember it.
                if spec.how.keeps(is_left) && !row.row.matched {
                    row.row.matched = true;
                    row.has_changed = true;
                }
            }
            emitter.push(
                name,
                Some((Some(ours.time), &ours.row.payload)),
                Some((Some(theirs.time), &theirs.row.payload)),
            )
        };
        for ours in left.iter_mut().filter(|row| row.is_new) {
            for theirs in between(
                right,
                ours.time.saturating_sub(spec.before),
                ours.time.saturating_add(spec.after),
            ) {
                pair(ours, theirs)?;
            }
        }
        for theirs in right.iter_mut().filter(|row| row.is_new) {
            let waiting = between(
                left,
                theirs.time.saturating_sub(spec.after),
                theirs.time.saturating_add(spec.before),
            );
            for ours in waiting.iter_mut().filter(|row| !row.is_new) {
                pair(ours, theirs)?;
            }
        }
        Ok(pairs)
    }
}

/// The rows with times in `[from, to]`.
fn between(rows: &mut [Candidate], from: i64, to: i64) -> &mut [Candidate] {
    let first = rows.partition_point(|row| row.time < from);
    let end = rows.partition_point(|row| row.time <= to);
    &mut rows[first..end.max(first)]
}

/// Hands the records of a key that have changed to its shelf.
fn put(shelf: &mut Shelf, name: &[u8], rows: Vec<Candidate>) {
    let mut rows = rows.into_iter().peekable();
    while let Some(first) = rows.next() {
        let (time, mut has_changed) = (first.time, first.has_changed);
        let mut record = vec![first.row];
        while let Some(row) = rows.next_if(|row| row.time == time) {
            has_changed |= row.has_changed;
            record.push(row.row);
        }
        if has_changed {
            shelf.put(name, time, record);
        }
    }
}
