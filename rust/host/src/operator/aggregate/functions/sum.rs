//! Sums.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp};
use arrow_schema::{DataType, Field, TimeUnit};
use holdfast_core::{Error, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, column, overflow, unreadable};
use super::decimal::{fits, typed, wider};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// How numbers of one type are added.
pub trait Addable: Send + 'static {
    /// The column's type.
    type Column: ArrowPrimitiveType;
    /// The sum's type.
    type Sum: ArrowPrimitiveType;
    /// Whether the sum depends on the order in which numbers are added.
    const ROUNDS: bool = false;
    /// Converts a number to the type of the sum.
    fn widen(
        value: <Self::Column as ArrowPrimitiveType>::Native,
    ) -> <Self::Sum as ArrowPrimitiveType>::Native;
    /// Whether a sum fits into a result of this type.
    fn fits(_sum: <Self::Sum as ArrowPrimitiveType>::Native, _result: &DataType) -> bool {
        true
    }
}

macro_rules! addable {
    ($name:ident, $column:ty, $sum:ty) => {
        addable!($name, $column, $sum, {});
    };
    ($name:ident, $column:ty, $sum:ty, {$($more:item)*}) => {
        /// Adds numbers of this type.
        pub struct $name;
        impl Addable for $name {
            type Column = $column;
            type Sum = $sum;
            fn widen(
                value: <Self::Column as ArrowPrimitiveType>::Native,
            ) -> <Self::Sum as ArrowPrimitiveType>::Native {
                value.into()
            }
            $($more)*
        }
    };
}

addable!(OfInt8, Int8Type, Int64Type);
addable!(OfInt16, Int16Type, Int64Type);
addable!(OfInt32, Int32Type, Int64Type);
addable!(OfInt64, Int64Type, Int64Type);
addable!(OfFloat32, Float32Type, Float64Type, {
    const ROUNDS: bool = true;
});
addable!(OfFloat64, Float64Type, Float64Type, {
    const ROUNDS: bool = true;
});
addable!(OfDuration, DurationMicrosecondType, DurationMicrosecondType);
addable!(OfDecimal, Decimal128Type, Decimal128Type, {
    // 128 bits hold more digits than the result's type has.
    fn fits(sum: i128, result: &DataType) -> bool {
        !matches!(result, DataType::Decimal128(precision, _) if !fits(sum, *precision))
    }
});

type SumOf<A> = Option<<<A as Addable>::Sum as ArrowPrimitiveType>::Native>;

/// The sum of a column's values; null if there are none.
pub struct Sum<A: Addable> {
    column: usize,
    name: String,
    sums: Vec<SumOf<A>>,
    /// The result's type; a decimal has its own precision and scale.
    data_type: DataType,
}

impl Sum<OfInt64> {
    /// The sum of a column, if it can be summed.
    pub fn accumulator(column: usize, field: &Field) -> Option<Box<dyn Accumulator>> {
        fn of<A: Addable>(
            column: usize,
            field: &Field,
            data_type: DataType,
        ) -> Option<Box<dyn Accumulator>> {
            Some(Box::new(Sum::<A> {
                column,
                name: field.name().clone(),
                sums: Vec::new(),
                data_type,
            }))
        }
        match field.data_type() {
            DataType::Int8 => of::<OfInt8>(column, field, DataType::Int64),
            DataType::Int16 => of::<OfInt16>(column, field, DataType::Int64),
            DataType::Int32 => of::<OfInt32>(column, field, DataType::Int64),
            DataType::Int64 => of::<OfInt64>(column, field, DataType::Int64),
            DataType::Float32 => of::<OfFloat32>(column, field, DataType::Float64),
            DataType::Float64 => of::<OfFloat64>(column, field, DataType::Float64),
            DataType::Decimal128(precision, scale) => of::<OfDecimal>(
                column,
                field,
                DataType::Decimal128(wider(*precision, 10), *scale),
            ),
            DataType::Duration(TimeUnit::Microsecond) => {
                of::<OfDuration>(column, field, field.data_type().clone())
            }
            _ => None,
        }
    }
}

impl<A: Addable> Sum<A> {
    fn plus(&self, sum: SumOf<A>, more: SumOf<A>) -> Result<SumOf<A>> {
        let Some(more) = more else { return Ok(sum) };
        Ok(Some(
            sum.unwrap_or_default()
                .add_checked(more)
                .map_err(|_| self.overflow())?,
        ))
    }

    fn union(&self, groups: &[usize]) -> Result<SumOf<A>> {
        groups
            .iter()
            .try_fold(None, |sum, group| self.plus(sum, self.sums[*group]))
    }

    fn overflow(&self) -> Error {
        overflow(&self.name, "sum", &self.data_type.to_string())
    }
}

impl<A: Addable> Accumulator for Sum<A> {
    fn state_types(&self) -> Vec<DataType> {
        vec![self.data_type.clone()]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        self.sums = state[0]
            .as_primitive_opt::<A::Sum>()
            .ok_or_else(|| unreadable("sum"))?
            .iter()
            .collect();
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let columns: Vec<_> = column(input, self.column)
            .map(|values| values.as_primitive::<A::Column>())
            .collect();
        for row in rows {
            let (column, n, group) = (
                columns[row.place.input()],
                row.place.row(),
                row.group as usize,
            );
            if column.is_valid(n) {
                self.sums[group] = self.plus(self.sums[group], Some(A::widen(column.value(n))))?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[GroupMerge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            self.sums[merge.into] = self.union(&merge.parts)?;
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![typed::<A::Sum>(
            self.sums.iter().copied(),
            &self.data_type,
        )])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let sums = unions
            .iter()
            .map(|groups| self.union(groups))
            .collect::<Result<Vec<_>>>()?;
        if sums
            .iter()
            .flatten()
            .any(|sum| !A::fits(*sum, &self.data_type))
        {
            return Err(self.overflow());
        }
        Ok(typed::<A::Sum>(sums, &self.data_type))
    }

    fn needs_order(&self) -> bool {
        A::ROUNDS
    }
}
