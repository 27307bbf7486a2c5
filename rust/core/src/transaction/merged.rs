//! Rows that a transaction has spilled over those of the last commit, as one ordered sequence.
//!
//! ```text
//! spilled   key → 0x01 | value, or 0x00: a delete, which hides the committed row of its key
//! ```

use crate::rocks::RawIterator;
use std::cmp::Ordering;

const DELETE: u8 = 0;
const PUT: u8 = 1;

/// A delete as it is spilled.
pub(super) const DELETED: &[u8] = &[DELETE];

/// A value as it is spilled; `row` is a buffer to make it in.
pub(super) fn marked<'a>(value: Option<&[u8]>, row: &'a mut Vec<u8>) -> &'a [u8] {
    row.clear();
    match value {
        Some(value) => {
            row.push(PUT);
            row.extend_from_slice(value);
        }
        None => row.push(DELETE),
    }
    row
}

/// The value of a spilled row; `None` for a delete.
#[inline]
pub(super) fn value(row: &[u8]) -> Option<&[u8]> {
    match row.split_first() {
        Some((&PUT, value)) => Some(value),
        _ => None,
    }
}

/// Where a cursor over both stands.
#[derive(Default)]
pub(crate) struct Place {
    on: Option<Side>,
    /// The last step went backward: the other side stands before this one.
    backward: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Spilled,
    Committed,
}

/// Both sides under a cursor. Going forward both stand at or behind its row, going backward at or
/// before it.
pub(crate) struct Merged<'a> {
    pub(super) spilled: &'a mut RawIterator,
    pub(super) committed: &'a mut RawIterator,
    pub(super) place: &'a mut Place,
}

impl Merged<'_> {
    pub(super) fn seek_to_first(&mut self) {
        self.spilled.seek_to_first();
        self.committed.seek_to_first();
        self.settle(false);
    }

    pub(super) fn seek_to_last(&mut self) {
        self.spilled.seek_to_last();
        self.committed.seek_to_last();
        self.settle(true);
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        self.spilled.seek(key);
        self.committed.seek(key);
        self.settle(false);
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) {
        self.spilled.seek_for_prev(key);
        self.committed.seek_for_prev(key);
        self.settle(true);
    }

    pub(super) fn next(&mut self) {
        self.step(false);
    }

    pub(super) fn prev(&mut self) {
        self.step(true);
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        match self.place.on? {
            Side::Spilled => self.spilled.key(),
            Side::Committed => self.committed.key(),
        }
    }

    pub(super) fn item(&self) -> Option<(&[u8], &[u8])> {
        match self.place.on? {
            Side::Spilled => self
                .spilled
                .item()
                .and_then(|(key, row)| Some((key, value(row)?))),
            Side::Committed => self.committed.item(),
        }
    }

    fn step(&mut self, backward: bool) {
        let Some(on) = self.place.on else { return };
        if self.place.backward != backward {
            // The other side stands on the wrong side of this row.
            let Some(key) = self.key().map(<[u8]>::to_vec) else {
                return;
            };
            for side in [&mut *self.spilled, &mut *self.committed] {
                if backward {
                    side.seek_for_prev(&key)
                } else {
                    side.seek(&key)
                }
            }
        }
        match on {
            Side::Spilled => self.pass_spilled(backward),
            Side::Committed => advance(self.committed, backward),
        }
        self.settle(backward);
    }

    /// Leaves the spilled row, and the committed one that it hides.
    fn pass_spilled(&mut self, backward: bool) {
        if self.committed.valid() && self.committed.key() == self.spilled.key() {
            advance(self.committed, backward);
        }
        advance(self.spilled, backward);
    }

    /// Decides which side has the nearest row; passes deletes over.
    fn settle(&mut self, backward: bool) {
        self.place.backward = backward;
        self.place.on = loop {
            let order = match (self.spilled.key(), self.committed.key()) {
                (None, None) => break None,
                (None, Some(_)) => break Some(Side::Committed),
                (Some(_), None) => Ordering::Less,
                (Some(spilled), Some(committed)) if backward => committed.cmp(spilled),
                (Some(spilled), Some(committed)) => spilled.cmp(committed),
            };
            if order == Ordering::Greater {
                break Some(Side::Committed);
            }
            if self.spilled.value().and_then(value).is_some() {
                break Some(Side::Spilled);
            }
            self.pass_spilled(backward);
        };
    }
}

fn advance(rows: &mut RawIterator, backward: bool) {
    if backward { rows.prev() } else { rows.next() }
}
