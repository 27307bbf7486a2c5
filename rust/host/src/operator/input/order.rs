//! The order of an epoch's rows: event time, right rows before left ones, `order_by`, row content.

use std::cmp::Ordering;

use super::batch::InputBatch;
use crate::protocol::Counts;

/// Where a row is, as a number that sorts: the side in the top bit, then the batch and the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPlace(u64);

const LEFT: u64 = 1 << 63;

impl RowPlace {
    /// The place of a row of a batch.
    pub fn new(is_left: bool, input: usize, row: usize) -> Self {
        Self(if is_left { LEFT } else { 0 } | ((input as u64) << 32) | row as u64)
    }

    /// The number of the row's batch.
    #[inline]
    pub fn input(self) -> usize {
        ((self.0 & !LEFT) >> 32) as usize
    }

    /// The row's number in its batch.
    #[inline]
    pub fn row(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    /// Whether the row is a left row.
    #[inline]
    pub fn is_left(self) -> bool {
        self.0 & LEFT != 0
    }
}

/// Which rows are processed, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// All rows, if the result does not depend on the order: as they arrived, or in order if they
    /// have spilled.
    Any,
    /// All rows in order, those without a time first.
    All,
    /// All rows in order, except right rows without a key or a time. Those can match nothing and
    /// are only counted. Left rows without a time match nothing either; they come first.
    Matchable,
}

impl RowOrder {
    /// Whether a row is processed; counts the others.
    pub(super) fn accepts(self, input: &InputBatch, row: usize, counts: &mut Counts) -> bool {
        let is_accepted = self != Self::Matchable
            || input.is_left(row)
            || (input.time(row).is_some() && input.keys.get(row).is_some());
        counts.dropped += u64::from(!is_accepted);
        is_accepted
    }

    /// The rows' places.
    pub(super) fn places(self, inputs: &[InputBatch], counts: &mut Counts) -> Vec<RowPlace> {
        match self {
            Self::Any => unordered(inputs),
            _ => ordered(inputs, |input, row| self.accepts(input, row, counts)),
        }
    }
}

/// The order in which rows spill, and are then returned in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpillOrder {
    /// That of [`RowOrder::All`].
    Time,
    /// First the rows without a key or a time, then the others by the bytes of their keys. Rows of
    /// one key are in the order of [`RowOrder::All`].
    Key,
}

impl SpillOrder {
    /// The places of all rows, in this order.
    pub(super) fn places(self, inputs: &[InputBatch]) -> Vec<RowPlace> {
        if self == Self::Time {
            return ordered(inputs, |_, _| true);
        }
        let mut places = unordered(inputs);
        places.sort_unstable_by(|a, b| {
            self.compare((&inputs[a.input()], a.row()), (&inputs[b.input()], b.row()))
        });
        places
    }

    /// Compares two rows.
    pub(super) fn compare(
        self,
        (a, row_a): (&InputBatch, usize),
        (b, row_b): (&InputBatch, usize),
    ) -> Ordering {
        let by_time = || compare((a, row_a), (b, row_b));
        match self {
            Self::Time => by_time(),
            Self::Key => timed_key(a, row_a)
                .cmp(&timed_key(b, row_b))
                .then_with(by_time),
        }
    }
}

/// The key of a row with a time.
fn timed_key(input: &InputBatch, row: usize) -> Option<&[u8]> {
    input.time(row).and(input.keys.get(row))
}

/// Returns the places of all rows, in the order in which the batches have them.
pub(super) fn unordered(inputs: &[InputBatch]) -> Vec<RowPlace> {
    let rows = inputs
        .iter()
        .enumerate()
        .flat_map(|(number, input)| (0..input.num_rows()).map(move |row| (number, row)));
    rows.map(|(number, row)| RowPlace::new(inputs[number].is_left(row), number, row))
        .collect()
}

/// Compares two rows in the order of [`RowOrder::All`].
fn compare((a, row_a): (&InputBatch, usize), (b, row_b): (&InputBatch, usize)) -> Ordering {
    let first =
        |input: &InputBatch, row: usize| (input.time(row).unwrap_or(i64::MIN), input.is_left(row));
    first(a, row_a)
        .cmp(&first(b, row_b))
        .then_with(|| compare_ties((a, row_a), (b, row_b)))
}

/// Compares two rows of one side and time. Without content, rows may compare as equal that are not:
/// the result does not depend on their order.
fn compare_ties((a, row_a): (&InputBatch, usize), (b, row_b): (&InputBatch, usize)) -> Ordering {
    a.order(row_a)
        .cmp(b.order(row_b))
        .then_with(|| a.content(row_a).cmp(b.content(row_b)))
}

fn ordered(
    inputs: &[InputBatch],
    mut keep: impl FnMut(&InputBatch, usize) -> bool,
) -> Vec<RowPlace> {
    let mut rows: Vec<(i64, RowPlace)> =
        Vec::with_capacity(inputs.iter().map(InputBatch::num_rows).sum());
    for (number, input) in inputs.iter().enumerate() {
        for row in 0..input.num_rows() {
            if keep(input, row) {
                rows.push((
                    input.time(row).unwrap_or(i64::MIN),
                    RowPlace::new(input.is_left(row), number, row),
                ));
            }
        }
    }
    // Times are mostly distinct: rows are sorted by numbers first, and only ties by their content.
    // No two numbers are equal. The sort is a stable one because it merges the sorted runs in which
    // a shuffle often delivers rows.
    rows.sort();
    for ties in rows.chunk_by_mut(|a, b| a.0 == b.0 && a.1.is_left() == b.1.is_left()) {
        if ties.len() > 1 {
            ties.sort_unstable_by(|(_, a), (_, b)| {
                compare_ties((&inputs[a.input()], a.row()), (&inputs[b.input()], b.row()))
            });
        }
    }
    rows.into_iter().map(|(_, place)| place).collect()
}
