//! The value of the row with the greatest or the least order.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray};
use arrow_schema::{DataType, Field};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::ranked_rows::{RankedRows, RankingOrder};
use crate::codec::float;
use crate::codec::row::RowCodec;
use crate::operator::aggregate::functions::accumulator::{Access, Accumulator, column, unreadable};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// The number of rows of a group.
const LIMIT: usize = 1;

/// A column of the input: its number and its field.
pub type InputColumn<'a> = (usize, &'a Field);

/// A value for each group: that of the first row in an order. It may be null. Rows whose order is
/// null are ignored.
pub struct RankedValues {
    order: RankingOrder,
    /// The column that orders the rows.
    order_column: usize,
    /// The column of the values.
    value_column: usize,
    /// The order, then the value: the bytes of rows compare by their orders, then by their values.
    codec: RowCodec,
    groups: Vec<RankedRows>,
}

impl RankedValues {
    /// The values of a column, ranked by another one.
    ///
    /// # Errors
    /// `InvalidType` for a column whose values cannot be stored.
    pub fn new(order: RankingOrder, by: InputColumn<'_>, value: InputColumn<'_>) -> Result<Self> {
        Ok(Self {
            order,
            order_column: by.0,
            value_column: value.0,
            codec: RowCodec::new([by.1, value.1])?,
            groups: Vec::new(),
        })
    }

    /// Returns the first rows of some groups, in order.
    fn first(&self, groups: &[usize]) -> Vec<&[u8]> {
        let mut rows: Vec<&[u8]> = groups
            .iter()
            .flat_map(|group| self.groups[*group].iter())
            .collect();
        if groups.len() > 1 {
            rows.sort_unstable_by(|a, b| self.order.compare(a, b));
            rows.truncate(LIMIT);
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
            .map(|(order, value)| {
                // Rows whose orders SQL calls equal are ranked by their values.
                let row = [float::for_equality(order), float::for_ordering(value)];
                self.codec.encode(&row)
            })
            .collect::<Result<Vec<_>>>()?;
        let nulls: Vec<_> = orders().map(|order| order.logical_nulls()).collect();
        for row in rows {
            let (input, n) = (row.place.input(), row.place.row());
            if nulls[input].as_ref().is_none_or(|nulls| nulls.is_valid(n)) {
                self.groups[row.group as usize].add(encoded[input].get(n), self.order, LIMIT);
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
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let rows = unions
            .iter()
            .map(|groups| self.first(groups).first().copied());
        Ok(self.codec.decode(rows)?.swap_remove(1))
    }
}
