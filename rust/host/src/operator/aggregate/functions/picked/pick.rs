//! Which value is picked.

use std::cmp::Ordering;

use crate::operator::input::InputBatch;

/// Which value is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickFunction {
    /// The least value; nulls are ignored.
    Min,
    /// The greatest value; nulls are ignored.
    Max,
    /// The value at the least time; it may be null. If several rows have that time, it is the least
    /// of their values. Without times, it is the first row's value. If the input has times, a row
    /// without one is ignored, as in `min_by`.
    First,
    /// The value at the greatest time; it may be null. If several rows have that time, it is the
    /// greatest of their values. Without times, it is the last row's value. If the input has times,
    /// a row without one is ignored.
    Last,
}

/// A function over a column that picks one value.
#[derive(Clone, Copy)]
pub struct Pick {
    /// Which value is picked.
    pub function: PickFunction,
    /// The column of the input.
    pub column: usize,
    /// Whether the rows have times.
    pub timed: bool,
}

impl Pick {
    /// Whether values are compared by the times of their rows first.
    fn is_by_time(self) -> bool {
        matches!(self.function, PickFunction::First | PickFunction::Last)
    }

    /// Returns the time by which a row is compared; `None` if the row is ignored. `is_null` is
    /// whether its value is null.
    #[inline]
    pub fn time(self, input: &InputBatch, row: usize, is_null: bool) -> Option<i64> {
        if self.is_by_time() {
            let without_times = (!self.timed).then_some(i64::MIN);
            input.time(row).or(without_times)
        } else {
            (!is_null).then_some(0)
        }
    }

    /// Whether a new value replaces the picked one. `order` is how the new one compares to it, by
    /// time and then by value.
    ///
    /// Groups are merged by the same rule, and only if rows have times.
    #[inline]
    pub fn replaces(self, order: impl FnOnce() -> Ordering) -> bool {
        match self.function {
            // Without times, the order in which rows are processed decides.
            PickFunction::First if !self.timed => false,
            PickFunction::Last if !self.timed => true,
            PickFunction::Min | PickFunction::First => order().is_lt(),
            PickFunction::Max | PickFunction::Last => order().is_gt(),
        }
    }

    /// Returns the picked value of a union of groups. `order` compares two values, by time and then
    /// by value.
    pub fn union<'a, P>(
        self,
        picked: &'a [Option<P>],
        groups: &[usize],
        order: impl Fn(&P, &P) -> Ordering,
    ) -> Option<&'a P> {
        let picked = groups.iter().filter_map(|group| picked[*group].as_ref());
        picked.reduce(|a, b| if self.replaces(|| order(b, a)) { b } else { a })
    }

    /// Whether the result depends on the order of the rows.
    pub fn needs_order(self) -> bool {
        self.is_by_time() && !self.timed
    }
}
