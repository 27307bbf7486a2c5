//! The order of an epoch's rows: event time, table before stream, `order_by`, row content.

use std::cmp::Ordering;

use super::input::Input;
use crate::operator::Counts;

/// Where a row lies, small and sortable: side in the top bit, then batch and row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64);

const LEFT: u64 = 1 << 63;

impl Place {
    fn new(is_left: bool, input: usize, row: usize) -> Self {
        Self(if is_left { LEFT } else { 0 } | ((input as u64) << 32) | row as u64)
    }

    /// The same row of the first batch.
    #[inline]
    pub fn in_first(self) -> Self {
        Self::new(self.is_left(), 0, self.row())
    }

    /// The number of its batch.
    #[inline]
    pub fn input(self) -> usize {
        ((self.0 & !LEFT) >> 32) as usize
    }

    /// Its row in that batch.
    #[inline]
    pub fn row(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    /// Whether it is of the left side.
    #[inline]
    pub fn is_left(self) -> bool {
        self.0 & LEFT != 0
    }
}

/// Which rows come, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All, as they lie: for operators that give the same in any order.
    Any,
    /// All in order, those without a time first.
    All,
    /// In order without the right rows that nothing can match (no key, no time), which are counted.
    /// Left rows without a time come first, since they match nothing wherever they stand.
    Matchable,
}

impl Order {
    /// Whether a row comes; counts those that do not.
    pub(super) fn keeps(self, input: &Input, row: usize, counts: &mut Counts) -> bool {
        let keeps = self != Self::Matchable
            || input.is_left(row)
            || (input.time(row).is_some() && input.keys.get(row).is_some());
        counts.dropped += u64::from(!keeps);
        keeps
    }

    /// The rows' places.
    pub(super) fn places(self, inputs: &[Input], counts: &mut Counts) -> Vec<Place> {
        match self {
            Self::Any => unordered(inputs),
            _ => ordered(inputs, |input, row| self.keeps(input, row, counts)),
        }
    }
}

/// All rows as they lie.
pub(super) fn unordered(inputs: &[Input]) -> Vec<Place> {
    let rows = inputs
        .iter()
        .enumerate()
        .flat_map(|(number, input)| (0..input.num_rows()).map(move |row| (number, row)));
    rows.map(|(number, row)| Place::new(inputs[number].is_left(row), number, row))
        .collect()
}

/// The order of two rows.
pub(super) fn compare((a, row_a): (&Input, usize), (b, row_b): (&Input, usize)) -> Ordering {
    let first =
        |input: &Input, row: usize| (input.time(row).unwrap_or(i64::MIN), input.is_left(row));
    first(a, row_a)
        .cmp(&first(b, row_b))
        .then_with(|| compare_ties((a, row_a), (b, row_b)))
}

/// The order of two rows of one side and time.
fn compare_ties((a, row_a): (&Input, usize), (b, row_b): (&Input, usize)) -> Ordering {
    a.order(row_a)
        .cmp(b.order(row_b))
        .then_with(|| a.content.get(row_a).cmp(b.content.get(row_b)))
}

fn ordered(inputs: &[Input], mut keep: impl FnMut(&Input, usize) -> bool) -> Vec<Place> {
    let mut rows: Vec<(i64, Place)> = Vec::with_capacity(inputs.iter().map(Input::num_rows).sum());
    for (number, input) in inputs.iter().enumerate() {
        for row in 0..input.num_rows() {
            if keep(input, row) {
                rows.push((
                    input.time(row).unwrap_or(i64::MIN),
                    Place::new(input.is_left(row), number, row),
                ));
            }
        }
    }
    // Times are mostly distinct: numbers first, and row content only where they do not decide.
    rows.sort_unstable();
    for ties in rows.chunk_by_mut(|a, b| a.0 == b.0 && a.1.is_left() == b.1.is_left()) {
        if ties.len() > 1 {
            ties.sort_unstable_by(|(_, a), (_, b)| {
                compare_ties((&inputs[a.input()], a.row()), (&inputs[b.input()], b.row()))
            });
        }
    }
    rows.into_iter().map(|(_, place)| place).collect()
}
