//! Sums.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, TimeUnit};
use holdfast_core::{Error, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, column, overflow, unreadable};
use super::decimal::{MAX_PRECISION, exact_state, fits, typed, wider};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// How numbers of one type are added.
///
/// Whole numbers and decimals are added in a type that no number of rows overflows, and only the
/// result is checked. So neither their sum nor its failure depends on the order of the rows.
pub trait Addable: Send + 'static {
    /// The column's type.
    type Column: ArrowPrimitiveType;
    /// The type in which numbers are added and stored.
    type State: ArrowPrimitiveType;
    /// The result's type.
    type Result: ArrowPrimitiveType;
    /// Whether the sum depends on the order in which numbers are added.
    const ROUNDS: bool = false;
    /// The type of the stored sums of a column of this type.
    fn state(column: &DataType) -> DataType;
    /// Converts a number to the type in which numbers are added.
    fn widen(
        value: <Self::Column as ArrowPrimitiveType>::Native,
    ) -> <Self::State as ArrowPrimitiveType>::Native;
    /// Converts a sum to a result of this type; `None` if it does not fit.
    fn narrow(
        sum: <Self::State as ArrowPrimitiveType>::Native,
        result: &DataType,
    ) -> Option<<Self::Result as ArrowPrimitiveType>::Native>;
}

macro_rules! whole {
    ($name:ident, $column:ty, $result:ty) => {
        /// Adds numbers of this type, in 128 bits.
        pub struct $name;
        impl Addable for $name {
            type Column = $column;
            type State = Decimal128Type;
            type Result = $result;
            fn state(_: &DataType) -> DataType {
                DataType::Decimal128(MAX_PRECISION, 0)
            }
            fn widen(value: <Self::Column as ArrowPrimitiveType>::Native) -> i128 {
                value.into()
            }
            fn narrow(sum: i128, _: &DataType) -> Option<i64> {
                sum.try_into().ok()
            }
        }
    };
}

macro_rules! float {
    ($name:ident, $column:ty) => {
        /// Adds numbers of this type.
        pub struct $name;
        impl Addable for $name {
            type Column = $column;
            type State = Float64Type;
            type Result = Float64Type;
            const ROUNDS: bool = true;
            fn state(_: &DataType) -> DataType {
                DataType::Float64
            }
            fn widen(value: <Self::Column as ArrowPrimitiveType>::Native) -> f64 {
                value.into()
            }
            fn narrow(sum: f64, _: &DataType) -> Option<f64> {
                Some(sum)
            }
        }
    };
}

whole!(OfInt8, Int8Type, Int64Type);
whole!(OfInt16, Int16Type, Int64Type);
whole!(OfInt32, Int32Type, Int64Type);
whole!(OfInt64, Int64Type, Int64Type);
whole!(OfDuration, DurationMicrosecondType, DurationMicrosecondType);
float!(OfFloat32, Float32Type);
float!(OfFloat64, Float64Type);

/// Adds decimals, in 256 bits.
pub struct OfDecimal;

impl Addable for OfDecimal {
    type Column = Decimal128Type;
    type State = Decimal256Type;
    type Result = Decimal128Type;
    fn state(column: &DataType) -> DataType {
        exact_state(column)
    }
    fn widen(value: i128) -> i256 {
        i256::from_i128(value)
    }
    fn narrow(sum: i256, result: &DataType) -> Option<i128> {
        let precision = match result {
            DataType::Decimal128(precision, _) => *precision,
            _ => MAX_PRECISION,
        };
        sum.to_i128().filter(|sum| fits(*sum, precision))
    }
}

type SumOf<A> = Option<<<A as Addable>::State as ArrowPrimitiveType>::Native>;

/// The sum of a column's values; null if there are none.
pub struct Sum<A: Addable> {
    column: usize,
    name: String,
    sums: Vec<SumOf<A>>,
    /// The type of the stored sums; a decimal has its own scale.
    state_type: DataType,
    /// The result's type; a decimal has its own precision and scale.
    data_type: DataType,
}

impl Sum<OfInt64> {
    /// Returns the sum of a column, if its type can be summed.
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
                state_type: A::state(field.data_type()),
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
        vec![self.state_type.clone()]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        self.sums = state[0]
            .as_primitive_opt::<A::State>()
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
        Ok(vec![typed::<A::State>(
            self.sums.iter().copied(),
            &self.state_type,
        )])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let sum = |groups: &&[usize]| {
            let sum = self.union(groups)?;
            sum.map(|sum| A::narrow(sum, &self.data_type).ok_or_else(|| self.overflow()))
                .transpose()
        };
        let sums = unions.iter().map(sum).collect::<Result<Vec<_>>>()?;
        Ok(typed::<A::Result>(sums, &self.data_type))
    }

    fn needs_order(&self) -> bool {
        A::ROUNDS
    }
}
