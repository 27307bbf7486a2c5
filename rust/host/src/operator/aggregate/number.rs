//! Counts, sums and averages.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, Decimal128Array, Float64Array, Int64Array};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, TimeUnit};
use holdfast_core::{Error, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, Assigned, Merge, column, overflow, unreadable};
use crate::operator::rows::Rows;

/// The greatest precision of a decimal.
const MAX_PRECISION: u8 = 38;

/// How many rows, or how many with a value.
pub struct Count {
    column: Option<usize>,
    counts: Vec<i64>,
}

impl Count {
    /// Of a column's values, or of rows.
    pub fn new(column: Option<usize>) -> Self {
        Self { column, counts: Vec::new() }
    }

    fn union(&self, groups: &[usize]) -> i64 {
        groups.iter().map(|group| self.counts[*group]).sum()
    }
}

impl Accumulator for Count {
    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Int64]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let kept = state[0].as_primitive_opt::<Int64Type>().ok_or_else(|| unreadable("count"))?;
        self.counts = kept.iter().map(|count| count.unwrap_or(0)).collect();
        Ok(())
    }

    fn update(&mut self, input: &Rows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let of = |of: usize| column(input, of).map(|values| values.logical_nulls()).collect();
        let nulls: Vec<_> = self.column.map_or_else(Vec::new, of);
        for row in rows {
            let nulls = nulls.get(row.place.input()).and_then(Option::as_ref);
            self.counts[row.group as usize] += i64::from(nulls.is_none_or(|nulls| nulls.is_valid(row.place.row())));
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[Merge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            self.counts[merge.into] = self.union(&merge.parts);
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(self.counts.clone()))])
    }

    fn result(&mut self, unions: &[&[usize]], _: &mut Access<'_>, _: &mut Xxh3Default) -> Result<ArrayRef> {
        Ok(Arc::new(unions.iter().map(|groups| Some(self.union(groups))).collect::<Int64Array>()))
    }
}

/// How numbers of one type are added up.
pub trait Addable: Send + 'static {
    /// The column's type.
    type Column: ArrowPrimitiveType;
    /// The sum's type.
    type Sum: ArrowPrimitiveType;
    /// Whether the order in which numbers are added shows in the sum.
    const ROUNDS: bool = false;
    /// A number as the sum has it.
    fn widen(value: <Self::Column as ArrowPrimitiveType>::Native) -> <Self::Sum as ArrowPrimitiveType>::Native;
    /// Whether a sum has no more digits than a result of this type.
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
            fn widen(value: <Self::Column as ArrowPrimitiveType>::Native) -> <Self::Sum as ArrowPrimitiveType>::Native {
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
    // 128 bits hold more digits than the result's type says.
    fn fits(sum: i128, result: &DataType) -> bool {
        !matches!(result, DataType::Decimal128(precision, _) if !fits(sum, *precision))
    }
});

type SumOf<A> = Option<<<A as Addable>::Sum as ArrowPrimitiveType>::Native>;

/// The sum of a column's values; null where there are none.
pub struct Sum<A: Addable> {
    column: usize,
    name: String,
    sums: Vec<SumOf<A>>,
    /// The result's type: a decimal's has its own precision and scale.
    data_type: DataType,
}

impl Sum<OfInt64> {
    /// The sum of a column, if it can be summed.
    pub fn accumulator(column: usize, field: &Field) -> Option<Box<dyn Accumulator>> {
        fn of<A: Addable>(column: usize, field: &Field, data_type: DataType) -> Option<Box<dyn Accumulator>> {
            Some(Box::new(Sum::<A> { column, name: field.name().clone(), sums: Vec::new(), data_type }))
        }
        match field.data_type() {
            DataType::Int8 => of::<OfInt8>(column, field, DataType::Int64),
            DataType::Int16 => of::<OfInt16>(column, field, DataType::Int64),
            DataType::Int32 => of::<OfInt32>(column, field, DataType::Int64),
            DataType::Int64 => of::<OfInt64>(column, field, DataType::Int64),
            DataType::Float32 => of::<OfFloat32>(column, field, DataType::Float64),
            DataType::Float64 => of::<OfFloat64>(column, field, DataType::Float64),
            DataType::Decimal128(precision, scale) => of::<OfDecimal>(column, field, DataType::Decimal128(wider(*precision, 10), *scale)),
            DataType::Duration(TimeUnit::Microsecond) => of::<OfDuration>(column, field, field.data_type().clone()),
            _ => None,
        }
    }
}

/// A decimal's precision with room for more digits, as Spark SQL widens it.
fn wider(precision: u8, digits: u8) -> u8 {
    precision.saturating_add(digits).min(MAX_PRECISION)
}

fn fits(value: i128, precision: u8) -> bool {
    value.unsigned_abs() < 10u128.pow(precision.into())
}

impl<A: Addable> Sum<A> {
    fn plus(&self, sum: SumOf<A>, more: SumOf<A>) -> Result<SumOf<A>> {
        let Some(more) = more else { return Ok(sum) };
        Ok(Some(sum.unwrap_or_default().add_checked(more).map_err(|_| self.overflow())?))
    }

    fn union(&self, groups: &[usize]) -> Result<SumOf<A>> {
        groups.iter().try_fold(None, |sum, group| self.plus(sum, self.sums[*group]))
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
        self.sums = state[0].as_primitive_opt::<A::Sum>().ok_or_else(|| unreadable("sum"))?.iter().collect();
        Ok(())
    }

    fn update(&mut self, input: &Rows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let columns: Vec<_> = column(input, self.column).map(|values| values.as_primitive::<A::Column>()).collect();
        for row in rows {
            let (column, n, group) = (columns[row.place.input()], row.place.row(), row.group as usize);
            if column.is_valid(n) {
                self.sums[group] = self.plus(self.sums[group], Some(A::widen(column.value(n))))?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[Merge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            self.sums[merge.into] = self.union(&merge.parts)?;
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![typed::<A::Sum>(self.sums.iter().copied(), &self.data_type)])
    }

    fn result(&mut self, unions: &[&[usize]], _: &mut Access<'_>, _: &mut Xxh3Default) -> Result<ArrayRef> {
        let sums = unions.iter().map(|groups| self.union(groups)).collect::<Result<Vec<_>>>()?;
        if sums.iter().flatten().any(|sum| !A::fits(*sum, &self.data_type)) {
            return Err(self.overflow());
        }
        Ok(typed::<A::Sum>(sums, &self.data_type))
    }

    fn needs_order(&self) -> bool {
        A::ROUNDS
    }
}

fn typed<T: ArrowPrimitiveType>(values: impl IntoIterator<Item = Option<T::Native>>, data_type: &DataType) -> ArrayRef {
    let array: arrow_array::PrimitiveArray<T> = values.into_iter().collect();
    Arc::new(array.with_data_type(data_type.clone()))
}

/// The average of whole numbers and floats: a float, as in Spark SQL.
pub struct Avg {
    column: usize,
    sums: Vec<f64>,
    counts: Vec<i64>,
}

impl Avg {
    /// The average of a column, if it is of numbers.
    pub fn new(column: usize, field: &Field) -> Option<Self> {
        let data_type = field.data_type();
        (data_type.is_integer() || data_type.is_floating()).then(|| Self { column, sums: Vec::new(), counts: Vec::new() })
    }

    fn union(&self, groups: &[usize]) -> (f64, i64) {
        groups.iter().fold((0.0, 0), |(sum, count), group| (sum + self.sums[*group], count + self.counts[*group]))
    }
}

fn float(column: &dyn Array, row: usize) -> f64 {
    match column.data_type() {
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row) as f64,
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).into(),
        _ => column.as_primitive::<Float64Type>().value(row),
    }
}

impl Accumulator for Avg {
    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Float64, DataType::Int64]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let (sums, counts) = (state[0].as_primitive_opt::<Float64Type>(), state[1].as_primitive_opt::<Int64Type>());
        let (sums, counts) = sums.zip(counts).ok_or_else(|| unreadable("avg"))?;
        self.sums = sums.iter().map(|sum| sum.unwrap_or(0.0)).collect();
        self.counts = counts.iter().map(|count| count.unwrap_or(0)).collect();
        Ok(())
    }

    fn update(&mut self, input: &Rows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let columns: Vec<&ArrayRef> = column(input, self.column).collect();
        for row in rows {
            let (column, n, group) = (columns[row.place.input()], row.place.row(), row.group as usize);
            if column.is_valid(n) {
                self.sums[group] += float(column, n);
                self.counts[group] += 1;
            }
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[Merge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            (self.sums[merge.into], self.counts[merge.into]) = self.union(&merge.parts);
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Float64Array::from(self.sums.clone())), Arc::new(Int64Array::from(self.counts.clone()))])
    }

    fn result(&mut self, unions: &[&[usize]], _: &mut Access<'_>, _: &mut Xxh3Default) -> Result<ArrayRef> {
        let means = unions.iter().map(|groups| {
            let (sum, count) = self.union(groups);
            (count > 0).then(|| sum / count as f64)
        });
        Ok(Arc::new(means.collect::<Float64Array>()))
    }

    fn needs_order(&self) -> bool {
        true
    }
}

/// The average of decimals, a decimal with four more digits behind the point, and that of intervals, in whole microseconds; both
/// exact, and rounded half away from zero, as in Spark SQL.
pub struct AvgExact {
    column: usize,
    name: String,
    sums: Vec<i128>,
    counts: Vec<i64>,
    scale: i8,
    result: DataType,
}

impl AvgExact {
    const SUM: u8 = MAX_PRECISION;

    /// The average of a column, if it is of decimals or intervals.
    pub fn new(column: usize, field: &Field) -> Option<Self> {
        let (scale, result) = match field.data_type() {
            // Spark's bounded(p + 4, s + 4): where that has more than 38 digits, both are cut.
            DataType::Decimal128(precision, scale) => {
                (*scale, DataType::Decimal128(wider(*precision, 4), (scale + 4).min(MAX_PRECISION as i8)))
            }
            DataType::Duration(TimeUnit::Microsecond) => (0, field.data_type().clone()),
            _ => return None,
        };
        Some(Self { column, name: field.name().clone(), sums: Vec::new(), counts: Vec::new(), scale, result })
    }

    /// The result's digits, and those behind the point.
    fn digits(&self) -> (u8, i8) {
        match self.result {
            DataType::Decimal128(precision, scale) => (precision, scale),
            // An average is no greater than its greatest value.
            _ => (MAX_PRECISION, 0),
        }
    }

    fn plus(&self, sum: i128, more: i128) -> Result<i128> {
        sum.checked_add(more).filter(|sum| fits(*sum, Self::SUM)).ok_or_else(|| overflow(&self.name, "avg", "decimal(38)"))
    }

    fn union(&self, groups: &[usize]) -> Result<(i128, i64)> {
        let sum = groups.iter().try_fold(0, |sum, group| self.plus(sum, self.sums[*group]))?;
        Ok((sum, groups.iter().map(|group| self.counts[*group]).sum()))
    }

    fn mean(&self, groups: &[usize]) -> Result<Option<i128>> {
        let (sum, count) = self.union(groups)?;
        if count == 0 {
            return Ok(None);
        }
        let (precision, scale) = self.digits();
        let more = i256::from_i128(10i128.pow((scale - self.scale).unsigned_abs().into()));
        let (sum, count) = (i256::from_i128(sum).wrapping_mul(more), i256::from_i128(count.into()));
        let (quotient, rest) = (sum.wrapping_div(count), sum.wrapping_rem(count));
        // Half away from zero.
        let up = if rest.wrapping_abs().wrapping_mul(i256::from_i128(2)) >= count { 1 } else { 0 };
        let up = if sum < i256::ZERO { -up } else { up };
        let mean = quotient.wrapping_add(i256::from_i128(up)).to_i128().filter(|mean| fits(*mean, precision));
        let wanted = format!("decimal({precision},{scale})");
        mean.map(Some).ok_or_else(|| overflow(&self.name, "avg", &wanted))
    }
}

impl Accumulator for AvgExact {
    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Decimal128(Self::SUM, self.scale), DataType::Int64]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let (sums, counts) = (state[0].as_primitive_opt::<Decimal128Type>(), state[1].as_primitive_opt::<Int64Type>());
        let (sums, counts) = sums.zip(counts).ok_or_else(|| unreadable("avg"))?;
        self.sums = sums.iter().map(|sum| sum.unwrap_or(0)).collect();
        self.counts = counts.iter().map(|count| count.unwrap_or(0)).collect();
        Ok(())
    }

    fn update(&mut self, input: &Rows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let columns: Vec<&ArrayRef> = column(input, self.column).collect();
        for row in rows {
            let (column, n, group) = (columns[row.place.input()], row.place.row(), row.group as usize);
            if column.is_valid(n) {
                self.sums[group] = self.plus(self.sums[group], whole(column, n))?;
                self.counts[group] += 1;
            }
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[Merge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            (self.sums[merge.into], self.counts[merge.into]) = self.union(&merge.parts)?;
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let sums: Decimal128Array = self.sums.iter().map(|sum| Some(*sum)).collect();
        let sums = sums.with_data_type(DataType::Decimal128(Self::SUM, self.scale));
        Ok(vec![Arc::new(sums), Arc::new(Int64Array::from(self.counts.clone()))])
    }

    fn result(&mut self, unions: &[&[usize]], _: &mut Access<'_>, _: &mut Xxh3Default) -> Result<ArrayRef> {
        let means = unions.iter().map(|groups| self.mean(groups)).collect::<Result<Vec<_>>>()?;
        let means = means.into_iter();
        Ok(match self.result {
            DataType::Duration(_) => typed::<DurationMicrosecondType>(means.map(|mean| mean.map(|mean| mean as i64)), &self.result),
            _ => typed::<Decimal128Type>(means, &self.result),
        })
    }
}

fn whole(column: &dyn Array, row: usize) -> i128 {
    match column.data_type() {
        DataType::Duration(_) => column.as_primitive::<DurationMicrosecondType>().value(row).into(),
        _ => column.as_primitive::<Decimal128Type>().value(row),
    }
}
