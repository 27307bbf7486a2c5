//! The new rows of an epoch by key and side.

use crate::operator::input::RowPlace;
use crate::operator::numbering::KeyNumbers;

/// A new row with a key and a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRow {
    /// Its time.
    pub time: i64,
    /// Where it is.
    pub place: RowPlace,
}

/// New rows by key, and by side. The keys have new numbers here, in the order of their bytes: rows
/// that have spilled come in that order, and the order of the result must not depend on memory.
pub struct NewRows {
    keys: KeyNumbers,
    /// What each key's number is in `keys`.
    sorted: Vec<u32>,
    /// The rows of the first key, then those of the second one, …; the left rows of a key come
    /// first. The rows of one side of a key are in the order in which they were added.
    rows: Vec<NewRow>,
    /// The end of each key's left rows, and of its right rows.
    ends: Vec<usize>,
}

impl NewRows {
    /// Groups rows, each with the number of its key in `keys`.
    pub fn new(keys: KeyNumbers, added: &[(u32, NewRow)]) -> Self {
        let sorted = keys.sorted();
        let mut numbers = vec![0; sorted.len()];
        for (number, key) in (0..).zip(&sorted) {
            numbers[*key as usize] = number;
        }
        let side_of =
            |key: u32, row: &NewRow| side_number(numbers[key as usize], row.place.is_left());
        // A counting sort: first how many rows each side has, then where each side begins.
        let mut ends = vec![0; 2 * keys.count()];
        for (key, row) in added {
            ends[side_of(*key, row)] += 1;
        }
        let mut begin = 0;
        for end in &mut ends {
            let count = *end;
            *end = begin;
            begin += count;
        }
        let mut rows: Vec<NewRow> = added.iter().map(|(_, row)| *row).collect();
        for (key, row) in added {
            // After the last row of a side, this is the side's end.
            let next = &mut ends[side_of(*key, row)];
            rows[*next] = *row;
            *next += 1;
        }
        Self {
            keys,
            sorted,
            rows,
            ends,
        }
    }

    /// The number of keys.
    pub fn key_count(&self) -> u32 {
        self.keys.count() as u32
    }

    /// A key's bytes.
    pub fn key(&self, number: u32) -> &[u8] {
        self.keys.key(self.sorted[number as usize])
    }

    /// The rows of one side of a key.
    pub fn side(&self, number: u32, is_left: bool) -> &[NewRow] {
        let side = side_number(number, is_left);
        let begin = side.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rows[begin..self.ends[side]]
    }
}

/// The number of one side of a key: two for each key, the left one first.
fn side_number(number: u32, is_left: bool) -> usize {
    2 * number as usize + usize::from(!is_left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_of_a_side_are_in_the_order_in_which_they_were_added(
            rows in prop::collection::vec((0..6_u8, any::<bool>()), 0..200),
        ) {
            let mut keys = KeyNumbers::default();
            let rows: Vec<(u32, NewRow)> = (0..).zip(&rows).map(|(time, (key, is_left))| {
                let place = RowPlace::new(*is_left, 0, 0);
                (keys.enter(&[*key]), NewRow { time, place })
            }).collect();
            let names: Vec<Vec<u8>> =
                (0..keys.count() as u32).map(|number| keys.key(number).to_vec()).collect();
            let new = NewRows::new(keys, &rows);
            for number in 1..new.key_count() {
                prop_assert!(new.key(number - 1) < new.key(number));
            }
            let mut count = 0;
            for number in 0..new.key_count() {
                for is_left in [true, false] {
                    let expected = rows.iter().filter(|(key, row)| {
                        names[*key as usize] == new.key(number) && row.place.is_left() == is_left
                    });
                    let expected: Vec<NewRow> = expected.map(|(_, row)| *row).collect();
                    prop_assert_eq!(new.side(number, is_left), &expected[..]);
                    count += expected.len();
                }
            }
            prop_assert_eq!(count, rows.len());
        }
    }
}
