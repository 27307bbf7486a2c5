//! Averages.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, TimeUnit};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, column, overflow, unreadable};
use super::decimal::{MAX_PRECISION, exact_state, fits, typed, wider};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// A sum and a count for each group.
#[derive(Default)]
struct SumsAndCounts<T> {
    sums: Vec<T>,
    counts: Vec<i64>,
}

impl<T: Copy + Default> SumsAndCounts<T> {
    fn load<A: ArrowPrimitiveType<Native = T>>(state: &[ArrayRef]) -> Result<Self> {
        let (sums, counts) = (
            state[0].as_primitive_opt::<A>(),
            state[1].as_primitive_opt::<Int64Type>(),
        );
        let (sums, counts) = sums.zip(counts).ok_or_else(|| unreadable("avg"))?;
        Ok(Self {
            sums: sums.iter().map(Option::unwrap_or_default).collect(),
            counts: counts.iter().map(Option::unwrap_or_default).collect(),
        })
    }

    /// Adds the rows' values in a column; `plus` adds the value of one row to a sum.
    fn add(
        &mut self,
        input: &InputRows,
        number: usize,
        rows: &[Assigned],
        plus: impl Fn(T, &dyn Array, usize) -> Result<T>,
    ) -> Result<()> {
        let columns: Vec<&ArrayRef> = column(input, number).collect();
        for row in rows {
            let (column, n, group) = (
                columns[row.place.input()],
                row.place.row(),
                row.group as usize,
            );
            if column.is_valid(n) {
                self.sums[group] = plus(self.sums[group], column, n)?;
                self.counts[group] += 1;
            }
        }
        Ok(())
    }
}

/// The average of whole numbers and floats: a float, as in Spark SQL.
pub struct Avg {
    column: usize,
    state: SumsAndCounts<f64>,
}

impl Avg {
    /// The average of a column of numbers; none for other columns.
    pub fn new(column: usize, field: &Field) -> Option<Self> {
        let data_type = field.data_type();
        (data_type.is_integer() || data_type.is_floating()).then(|| Self {
            column,
            state: SumsAndCounts::default(),
        })
    }

    fn union(&self, groups: &[usize]) -> (f64, i64) {
        groups.iter().fold((0.0, 0), |(sum, count), group| {
            (
                sum + self.state.sums[*group],
                count + self.state.counts[*group],
            )
        })
    }
}

/// Returns a value of a column of numbers as a float.
pub fn float(column: &dyn Array, row: usize) -> f64 {
    match column.data_type() {
        DataType::Decimal128(_, scale) => {
            column.as_primitive::<Decimal128Type>().value(row) as f64
                / 10_f64.powi(i32::from(*scale))
        }
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
        self.state = SumsAndCounts::load::<Float64Type>(state)?;
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        self.state
            .add(input, self.column, rows, |sum, column, row| {
                Ok(sum + float(column, row))
            })
    }

    fn merge(&mut self, merges: &[GroupMerge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            (self.state.sums[merge.into], self.state.counts[merge.into]) = self.union(&merge.parts);
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![
            Arc::new(Float64Array::from(self.state.sums.clone())),
            Arc::new(Int64Array::from(self.state.counts.clone())),
        ])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
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

/// The exact average of decimals or of intervals, rounded half away from zero, as in Spark SQL.
///
/// The average of decimals is a decimal with four more digits after the point; that of intervals is
/// in whole microseconds.
pub struct AvgExact {
    column: usize,
    name: String,
    state: SumsAndCounts<i256>,
    /// The type of the sums.
    sum: DataType,
    scale: i8,
    result: DataType,
}

impl AvgExact {
    /// The average of a column of decimals or intervals; none for other columns.
    pub fn new(column: usize, field: &Field) -> Option<Self> {
        let (scale, result) = match field.data_type() {
            // Spark's bounded(p + 4, s + 4): both are limited to 38.
            DataType::Decimal128(precision, scale) => (
                *scale,
                DataType::Decimal128(wider(*precision, 4), (scale + 4).min(MAX_PRECISION as i8)),
            ),
            DataType::Duration(TimeUnit::Microsecond) => (0, field.data_type().clone()),
            _ => return None,
        };
        Some(Self {
            column,
            name: field.name().clone(),
            state: SumsAndCounts::default(),
            sum: exact_state(field.data_type()),
            scale,
            result,
        })
    }

    /// The result's precision and scale.
    fn digits(&self) -> (u8, i8) {
        match self.result {
            DataType::Decimal128(precision, scale) => (precision, scale),
            // An average is never greater than the greatest value.
            _ => (MAX_PRECISION, 0),
        }
    }

    fn plus(name: &str, sum: i256, more: i256) -> Result<i256> {
        sum.checked_add(more)
            .ok_or_else(|| overflow(name, "avg", "decimal(38)"))
    }

    fn union(&self, groups: &[usize]) -> Result<(i256, i64)> {
        let sum = groups.iter().try_fold(i256::ZERO, |sum, group| {
            Self::plus(&self.name, sum, self.state.sums[*group])
        })?;
        Ok((
            sum,
            groups.iter().map(|group| self.state.counts[*group]).sum(),
        ))
    }

    fn mean(&self, groups: &[usize]) -> Result<Option<i128>> {
        let (sum, count) = self.union(groups)?;
        if count == 0 {
            return Ok(None);
        }
        let (precision, scale) = self.digits();
        let more = i256::from_i128(10i128.pow((scale - self.scale).unsigned_abs().into()));
        let (sum, count) = (sum.wrapping_mul(more), i256::from_i128(count.into()));
        let (quotient, rest) = (sum.wrapping_div(count), sum.wrapping_rem(count));
        // Half away from zero.
        let up = if rest.wrapping_abs().wrapping_mul(i256::from_i128(2)) >= count {
            1
        } else {
            0
        };
        let up = if sum < i256::ZERO { -up } else { up };
        let mean = quotient
            .wrapping_add(i256::from_i128(up))
            .to_i128()
            .filter(|mean| fits(*mean, precision));
        let wanted = format!("decimal({precision},{scale})");
        mean.map(Some)
            .ok_or_else(|| overflow(&self.name, "avg", &wanted))
    }
}

impl Accumulator for AvgExact {
    fn state_types(&self) -> Vec<DataType> {
        vec![self.sum.clone(), DataType::Int64]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        self.state = SumsAndCounts::load::<Decimal256Type>(state)?;
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let name = self.name.as_str();
        self.state
            .add(input, self.column, rows, |sum, column, row| {
                Self::plus(name, sum, whole(column, row))
            })
    }

    fn merge(&mut self, merges: &[GroupMerge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            (self.state.sums[merge.into], self.state.counts[merge.into]) =
                self.union(&merge.parts)?;
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let sums = self.state.sums.iter().map(|sum| Some(*sum));
        Ok(vec![
            typed::<Decimal256Type>(sums, &self.sum),
            Arc::new(Int64Array::from(self.state.counts.clone())),
        ])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let means = unions
            .iter()
            .map(|groups| self.mean(groups))
            .collect::<Result<Vec<_>>>()?;
        let means = means.into_iter();
        Ok(match self.result {
            DataType::Duration(_) => typed::<DurationMicrosecondType>(
                means.map(|mean| mean.map(|mean| mean as i64)),
                &self.result,
            ),
            _ => typed::<Decimal128Type>(means, &self.result),
        })
    }
}

fn whole(column: &dyn Array, row: usize) -> i256 {
    match column.data_type() {
        DataType::Duration(_) => column
            .as_primitive::<DurationMicrosecondType>()
            .value(row)
            .into(),
        _ => i256::from_i128(column.as_primitive::<Decimal128Type>().value(row)),
    }
}
