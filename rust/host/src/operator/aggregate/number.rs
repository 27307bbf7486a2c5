//! Counts, sums and averages.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, Decimal128Array, DurationMicrosecondArray, Float64Array, Int64Array, RecordBatch};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, TimeUnit};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, Assigned, overflow, unreadable};

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

    fn update(&mut self, batches: &[&RecordBatch], rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let nulls: Vec<_> = batches.iter().map(|batch| self.column.and_then(|column| batch.column(column).logical_nulls())).collect();
        for row in rows {
            let is_null = nulls[row.place.input()].as_ref().is_some_and(|nulls| nulls.is_null(row.place.row()));
            self.counts[row.group as usize] += i64::from(!is_null);
        }
        Ok(())
    }

    fn state(&self) -> Vec<ArrayRef> {
        vec![Arc::new(Int64Array::from(self.counts.clone()))]
    }

    fn result(&self, groups: &[usize], _: &mut Access<'_>, _: &mut Xxh3Default) -> Result<ArrayRef> {
        Ok(Arc::new(groups.iter().map(|group| Some(self.counts[*group])).collect::<Int64Array>()))
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
    /// One more; nothing where the sum does not fit.
    fn add(
        sum: <Self::Sum as ArrowPrimitiveType>::Native,
        value: <Self::Column as ArrowPrimitiveType>::Native,
    ) -> Option<<Self::Sum as ArrowPrimitiveType>::Native>;
}

macro_rules! addable {
    ($name:ident, $column:ty, $sum:ty, $rounds:expr, $add:expr) => {
        /// Adds numbers of this type.
        pub struct $name;
        impl Addable for $name {
            type Column = $column;
            type Sum = $sum;
            const ROUNDS: bool = $rounds;
            fn add(
                sum: <Self::Sum as ArrowPrimitiveType>::Native,
                value: <Self::Column as ArrowPrimitiveType>::Native,
            ) -> Option<<Self::Sum as ArrowPrimitiveType>::Native> {
                $add(sum, value)
            }
        }
    };
}

addable!(OfInt8, Int8Type, Int64Type, false, |sum: i64, value: i8| sum.checked_add(value.into()));
addable!(OfInt16, Int16Type, Int64Type, false, |sum: i64, value: i16| sum.checked_add(value.into()));
addable!(OfInt32, Int32Type, Int64Type, false, |sum: i64, value: i32| sum.checked_add(value.into()));
addable!(OfInt64, Int64Type, Int64Type, false, |sum: i64, value: i64| sum.checked_add(value));
addable!(OfFloat32, Float32Type, Float64Type, true, |sum: f64, value: f32| Some(sum + f64::from(value)));
addable!(OfFloat64, Float64Type, Float64Type, true, |sum: f64, value: f64| Some(sum + value));
addable!(OfDecimal, Decimal128Type, Decimal128Type, false, |sum: i128, value: i128| sum.checked_add(value));
addable!(OfDuration, DurationMicrosecondType, DurationMicrosecondType, false, |sum: i64, value: i64| sum.checked_add(value));

/// The sum of a column's values; null where there are none.
pub struct Sum<A: Addable> {
    column: usize,
    name: String,
    sums: Vec<Option<<A::Sum as ArrowPrimitiveType>::Native>>,
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

impl<A: Addable> Accumulator for Sum<A> {
    fn state_types(&self) -> Vec<DataType> {
        vec![self.data_type.clone()]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        self.sums = state[0].as_primitive_opt::<A::Sum>().ok_or_else(|| unreadable("sum"))?.iter().collect();
        Ok(())
    }

    fn update(&mut self, batches: &[&RecordBatch], rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let columns: Vec<_> = batches.iter().map(|batch| batch.column(self.column).as_primitive::<A::Column>()).collect();
        for row in rows {
            let (column, n) = (columns[row.place.input()], row.place.row());
            if column.is_valid(n) {
                let sum = &mut self.sums[row.group as usize];
                let added = A::add(sum.unwrap_or_default(), column.value(n));
                *sum = Some(added.ok_or_else(|| overflow(&self.name, "sum", &self.data_type.to_string()))?);
            }
        }
        // A decimal of 128 bits holds more digits than its type says.
        if let DataType::Decimal128(precision, _) = self.data_type {
            let sums: Vec<ArrayRef> = self.state();
            let sums = sums[0].as_primitive::<Decimal128Type>();
            if rows.iter().any(|row| !fits(sums.value(row.group as usize), precision)) {
                return Err(overflow(&self.name, "sum", &self.data_type.to_string()));
            }
        }
        Ok(())
    }

    fn state(&self) -> Vec<ArrayRef> {
        vec![typed::<A::Sum>(self.sums.iter().copied(), &self.data_type)]
    }

    fn result(&self, groups: &[usize], _: &mut Access<'_>, _: &mut Xxh3Default) -> Result<ArrayRef> {
        Ok(typed::<A::Sum>(groups.iter().map(|group| self.sums[*group]), &self.data_type))
    }

    fn needs_order(&self) -> bool {
        A::ROUNDS
    }
}

fn typed<T: ArrowPrimitiveType>(values: impl Iterator<Item = Option<T::Native>>, data_type: &DataType) -> ArrayRef {
    let array: arrow_array::PrimitiveArray<T> = values.collect();
    Arc::new(array.with_data_type(data_type.clone()))
}

/// The average of numbers that are no decimals: a float, as in Spark SQL.
pub struct Avg {
    column: usize,
    data_type: DataType,
    sums: Vec<f64>,
    counts: Vec<i64>,
}

impl Avg {
    /// The average of a column, if it is of numbers.
    pub fn new(column: usize, field: &Field) -> Option<Self> {
        let data_type = field.data_type().clone();
        let number = data_type.is_integer() || data_type.is_floating() || data_type == DataType::Duration(TimeUnit::Microsecond);
        number.then(|| Self { column, data_type, sums: Vec::new(), counts: Vec::new() })
    }
}

fn float(column: &dyn Array, row: usize) -> f64 {
    match column.data_type() {
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row) as f64,
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).into(),
        DataType::Duration(_) => column.as_primitive::<DurationMicrosecondType>().value(row) as f64,
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

    fn update(&mut self, batches: &[&RecordBatch], rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let columns: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(self.column)).collect();
        for row in rows {
            let (column, n, group) = (columns[row.place.input()], row.place.row(), row.group as usize);
            if column.is_valid(n) {
                self.sums[group] += float(column, n);
                self.counts[group] += 1;
            }
        }
        Ok(())
    }

    fn state(&self) -> Vec<ArrayRef> {
        vec![Arc::new(Float64Array::from(self.sums.clone())), Arc::new(Int64Array::from(self.counts.clone()))]
    }

    fn result(&self, groups: &[usize], _: &mut Access<'_>, _: &mut Xxh3Default) -> Result<ArrayRef> {
        let means = groups.iter().map(|group| {
            let count = self.counts[*group];
            (count > 0).then(|| self.sums[*group] / count as f64)
        });
        Ok(match self.data_type {
            // Spark rounds an interval's average half away from zero.
            DataType::Duration(_) => Arc::new(means.map(|mean| mean.map(|mean| mean.round() as i64)).collect::<DurationMicrosecondArray>()),
            _ => Arc::new(means.collect::<Float64Array>()),
        })
    }

    fn needs_order(&self) -> bool {
        true
    }
}

/// The average of decimals: a decimal with four more digits behind the point, as in Spark SQL.
pub struct AvgDecimal {
    column: usize,
    name: String,
    sums: Vec<i128>,
    counts: Vec<i64>,
    scale: i8,
    result: (u8, i8),
}

impl AvgDecimal {
    const SUM: u8 = MAX_PRECISION;

    /// The average of a column of this precision and scale.
    pub fn new(column: usize, name: &str, precision: u8, scale: i8) -> Self {
        // Spark's bounded(p + 4, s + 4): where that has more than 38 digits, both are cut.
        let result = (wider(precision, 4), (scale + 4).min(MAX_PRECISION as i8));
        Self { column, name: name.to_owned(), sums: Vec::new(), counts: Vec::new(), scale, result }
    }

    fn mean(&self, group: usize) -> Result<Option<i128>> {
        let (sum, count) = (self.sums[group], self.counts[group]);
        if count == 0 {
            return Ok(None);
        }
        let more = i256::from_i128(10i128.pow((self.result.1 - self.scale).unsigned_abs().into()));
        let (sum, count) = (i256::from_i128(sum).wrapping_mul(more), i256::from_i128(count.into()));
        let (quotient, rest) = (sum.wrapping_div(count), sum.wrapping_rem(count));
        // Half away from zero.
        let up = if rest.wrapping_abs().wrapping_mul(i256::from_i128(2)) >= count { 1 } else { 0 };
        let up = if sum < i256::ZERO { -up } else { up };
        let mean = quotient.wrapping_add(i256::from_i128(up)).to_i128().filter(|mean| fits(*mean, self.result.0));
        let wanted = format!("decimal({},{})", self.result.0, self.result.1);
        mean.map(Some).ok_or_else(|| overflow(&self.name, "avg", &wanted))
    }
}

impl Accumulator for AvgDecimal {
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

    fn update(&mut self, batches: &[&RecordBatch], rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let columns: Vec<_> = batches.iter().map(|batch| batch.column(self.column).as_primitive::<Decimal128Type>()).collect();
        for row in rows {
            let (column, n, group) = (columns[row.place.input()], row.place.row(), row.group as usize);
            if column.is_valid(n) {
                let sum = self.sums[group].checked_add(column.value(n)).filter(|sum| fits(*sum, Self::SUM));
                self.sums[group] = sum.ok_or_else(|| overflow(&self.name, "avg", "decimal(38)"))?;
                self.counts[group] += 1;
            }
        }
        Ok(())
    }

    fn state(&self) -> Vec<ArrayRef> {
        let sums: Decimal128Array = self.sums.iter().map(|sum| Some(*sum)).collect();
        vec![Arc::new(sums.with_data_type(DataType::Decimal128(Self::SUM, self.scale))), Arc::new(Int64Array::from(self.counts.clone()))]
    }

    fn result(&self, groups: &[usize], _: &mut Access<'_>, _: &mut Xxh3Default) -> Result<ArrayRef> {
        let means = groups.iter().map(|group| self.mean(*group)).collect::<Result<Vec<_>>>()?;
        let (precision, scale) = self.result;
        Ok(Arc::new(Decimal128Array::from(means).with_data_type(DataType::Decimal128(precision, scale))))
    }
}
