//! The value of the row with the greatest or the least order, or the values of the first such rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, ListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::ranked_rows::{RankedRows, RankingOrder};
use crate::codec::float;
use crate::codec::row::{EncodedRows, RowCodec};
use crate::operator::aggregate::functions::accumulator::{
    Access, Accumulator, check_row_size, column, unreadable,
};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// Which rows of a group are ranked.
#[derive(Clone, Copy)]
pub struct Ranking {
    /// Which rows come first.
    pub order: RankingOrder,
    /// The number of rows in the result, which is a list. `None`: the result is the first row.
    pub limit: Option<usize>,
}

impl Ranking {
    fn rows(self) -> usize {
        self.limit.unwrap_or(1)
    }

    /// Checks that a row of the result fits into a frame and into the offsets of an Arrow column.
    fn check_size(self, bytes: usize, key: &[u8]) -> Result<()> {
        let function = match self.order {
            RankingOrder::Greatest => "max_by",
            RankingOrder::Least => "min_by",
        };
        check_row_size(bytes, function, "rank fewer values, or smaller ones", key)
    }
}

/// A column of the input: its number and its field.
pub type InputColumn<'a> = (usize, &'a Field);

/// The values of the first rows of each group in an order: one value, or a list of them. A value
/// may be null. Rows whose order is null are ignored.
pub struct RankedValues {
    ranking: Ranking,
    /// The column that orders the rows.
    order_column: usize,
    /// The column of the values.
    value_column: usize,
    /// The order, then the value: the bytes of rows compare by their orders, then by their values.
    codec: RowCodec,
    /// Whether values have floats inside them. Then the codec has the value with positive zeros
    /// before the value. Otherwise the sign of an inner zero would decide before the fields after
    /// it.
    has_inner_floats: bool,
    /// The elements of a list.
    element: Arc<Field>,
    groups: Vec<RankedRows>,
}

impl RankedValues {
    /// The values of a column, ranked by another one.
    ///
    /// # Errors
    /// `InvalidType` for a column whose values cannot be stored.
    pub fn new(ranking: Ranking, by: InputColumn<'_>, value: InputColumn<'_>) -> Result<Self> {
        let has_inner_floats = float::are_inside(value.1.data_type());
        let mut fields = vec![by.1, value.1];
        if has_inner_floats {
            fields.push(value.1);
        }
        Ok(Self {
            ranking,
            order_column: by.0,
            value_column: value.0,
            codec: RowCodec::new(fields)?,
            has_inner_floats,
            element: Arc::new(Field::new("element", value.1.data_type().clone(), true)),
            groups: Vec::new(),
        })
    }

    /// Encodes rows of these orders and values.
    fn encode(&self, order: &ArrayRef, value: &ArrayRef) -> Result<EncodedRows> {
        // Rows whose orders SQL calls equal are ranked by their values.
        let mut columns = vec![float::for_equality(order)];
        if self.has_inner_floats {
            columns.push(float::for_equality(value));
        }
        columns.push(float::for_ordering(value));
        self.codec.encode(&columns)
    }

    /// Returns the values of rows.
    fn values<'a>(&'a self, rows: impl Iterator<Item = Option<&'a [u8]>>) -> Result<ArrayRef> {
        let last = if self.has_inner_floats { 2 } else { 1 };
        Ok(self.codec.decode(rows)?.swap_remove(last))
    }

    /// Returns the first rows of some groups, in order.
    fn first(&self, groups: &[usize]) -> Vec<&[u8]> {
        let mut rows: Vec<&[u8]> = groups
            .iter()
            .flat_map(|group| self.groups[*group].iter())
            .collect();
        if groups.len() > 1 {
            rows.sort_unstable_by(|a, b| self.ranking.order.compare(a, b));
            rows.truncate(self.ranking.rows());
        }
        rows
    }
}

impl Accumulator for RankedValues {
    fn state_types(&self) -> Vec<DataType> {
        // Large binary, because the rows of all groups of an epoch are in one column.
        vec![DataType::LargeBinary]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let unreadable = || unreadable("max_by, min_by");
        let groups = state[0].as_binary_opt::<i64>().ok_or_else(unreadable)?;
        let groups = groups.iter().map(|rows| {
            rows.map_or(Some(RankedRows::default()), RankedRows::decode)
                .ok_or_else(unreadable)
        });
        self.groups = groups.collect::<Result<_>>()?;
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let orders = || column(input, self.order_column);
        let encoded = orders()
            .zip(column(input, self.value_column))
            .map(|(order, value)| self.encode(order, value))
            .collect::<Result<Vec<_>>>()?;
        let nulls: Vec<_> = orders().map(|order| order.logical_nulls()).collect();
        let (order, limit) = (self.ranking.order, self.ranking.rows());
        for row in rows {
            let (input, n) = (row.place.input(), row.place.row());
            if nulls[input].as_ref().is_none_or(|nulls| nulls.is_valid(n)) {
                self.groups[row.group as usize].add(encoded[input].get(n), order, limit);
            }
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[GroupMerge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            self.groups[merge.into] = self.first(&merge.parts).into_iter().collect();
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let groups = self.groups.iter().map(|rows| Some(rows.encode()));
        Ok(vec![Arc::new(groups.collect::<LargeBinaryArray>())])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        access: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let first: Vec<Vec<&[u8]>> = unions.iter().map(|groups| self.first(groups)).collect();
        if self.ranking.limit.is_none() {
            let rows = first.iter().map(|rows| rows.first().copied());
            return self.values(rows);
        }
        for (rows, groups) in first.iter().zip(unions) {
            let key = groups
                .first()
                .map_or(&[][..], |group| access.groups.key(*group));
            let bytes = rows.iter().map(|row| row.len()).sum();
            self.ranking.check_size(bytes, key)?;
        }
        let rows = first.iter().flatten().map(|row| Some(*row));
        let lists = ListArray::try_new(
            Arc::clone(&self.element),
            OffsetBuffer::from_lengths(first.iter().map(Vec::len)),
            self.values(rows)?,
            Some(NullBuffer::from_iter(
                first.iter().map(|rows| !rows.is_empty()),
            )),
        );
        Ok(Arc::new(lists.map_err(|_| unreadable("max_by, min_by"))?))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::ErrorKind;

    use super::*;
    use crate::net::frame::MAX_PAYLOAD;

    #[test]
    fn a_row_larger_than_a_frame_names_the_function_and_the_key() {
        let ranking = Ranking {
            order: RankingOrder::Least,
            limit: Some(10),
        };
        ranking
            .check_size(MAX_PAYLOAD as usize, b"EUR")
            .expect("it just fits");
        let error = ranking
            .check_size(MAX_PAYLOAD as usize + 1, b"EUR")
            .expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::Serialization);
        assert!(
            error.to_string().contains("min_by") && error.to_string().contains("[key: EUR]"),
            "{error}"
        );
    }
}
