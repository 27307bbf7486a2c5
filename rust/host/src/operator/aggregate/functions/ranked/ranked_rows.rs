//! The rows of a group that come first in an order, and their bytes in the state.
//!
//! ```text
//! for each row, the first one first:   length, 4 bytes, big-endian | row
//! row   order, value (`codec/row.rs`); before a value with floats inside it, the value with
//!       positive zeros
//! ```

use std::cmp::Ordering;

/// Which rows come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingOrder {
    /// Rows with the greatest order; if orders are equal, with the greatest value.
    Greatest,
    /// Rows with the least order; if orders are equal, with the least value.
    Least,
}

impl RankingOrder {
    /// Compares two rows; the lesser one comes first.
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Greatest => b.cmp(a),
            Self::Least => a.cmp(b),
        }
    }
}

/// The first rows of a group, in order. A row is the bytes by which it is compared, value included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankedRows {
    rows: Vec<Box<[u8]>>,
}

impl RankedRows {
    /// Adds a row if fewer than `limit` rows come before it; then drops the rows after `limit`.
    pub fn add(&mut self, row: &[u8], order: RankingOrder, limit: usize) {
        let is_before = |old: &[u8]| order.compare(old, row) != Ordering::Greater;
        // Most rows of a stream are not among the first ones.
        if self.rows.len() >= limit && self.rows.last().is_none_or(|last| is_before(last)) {
            return;
        }
        let place = self.rows.partition_point(|old| is_before(old));
        self.rows.insert(place, row.into());
        self.rows.truncate(limit);
    }

    /// Returns the rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.rows.iter().map(AsRef::as_ref)
    }

    /// Returns the rows as the state stores them.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.rows.iter().map(|row| 4 + row.len()).sum());
        for row in &self.rows {
            // A row comes in a frame, which is far shorter than 4 GiB.
            bytes.extend_from_slice(&(row.len() as u32).to_be_bytes());
            bytes.extend_from_slice(row);
        }
        bytes
    }

    /// Reads stored rows; none if the bytes are no such rows.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut rows = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (row, rest) = rest.split_at_checked(length)?;
            rows.push(row.into());
            bytes = rest;
        }
        Some(Self { rows })
    }
}

impl<'a> FromIterator<&'a [u8]> for RankedRows {
    /// Takes rows that are in order.
    fn from_iter<T: IntoIterator<Item = &'a [u8]>>(rows: T) -> Self {
        Self {
            rows: rows.into_iter().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(rows: &[&[u8]], order: RankingOrder, limit: usize) -> RankedRows {
        let mut ranked = RankedRows::default();
        rows.iter().for_each(|row| ranked.add(row, order, limit));
        ranked
    }

    /// Pins the stored format.
    #[test]
    fn stored_bytes_never_change() {
        let rows = of(&[b"ab", b"", b"c"], RankingOrder::Greatest, 3);
        let golden = b"\0\0\0\x01c\0\0\0\x02ab\0\0\0\0";
        assert_eq!(rows.encode(), golden);
        assert_eq!(RankedRows::decode(golden), Some(rows));
        assert_eq!(RankedRows::decode(b""), Some(RankedRows::default()));
    }

    #[test]
    fn damaged_bytes_are_no_rows() {
        for damaged in [
            &b"\0\0\0"[..],
            b"\0\0\0\x02a",
            b"\xff\xff\xff\xffa",
            b"\0\0\0\x01ab",
        ] {
            assert_eq!(RankedRows::decode(damaged), None, "{damaged:?}");
        }
    }

    proptest! {
        #[test]
        fn rows_are_the_first_of_all_that_were_added(
            mut rows in prop::collection::vec(prop::collection::vec(0..3_u8, 0..3), 0..40),
            limit in 1..6_usize, greatest in any::<bool>(),
        ) {
            let order = if greatest { RankingOrder::Greatest } else { RankingOrder::Least };
            let borrowed: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            let found = of(&borrowed, order, limit);
            prop_assert_eq!(RankedRows::decode(&found.encode()), Some(found.clone()));
            rows.sort_by(|a, b| order.compare(a, b));
            rows.truncate(limit);
            prop_assert_eq!(found.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), rows);
        }
    }
}
