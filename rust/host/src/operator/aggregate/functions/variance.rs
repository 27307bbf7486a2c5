//! Variances and standard deviations.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_schema::{DataType, Field};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, column, unreadable};
use super::avg::float;
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// What is computed from the squared distances of the values from their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarianceFunction {
    /// The variance of a sample: their sum by one less than the number of values; null for one
    /// value, as in Spark SQL.
    Sample,
    /// The square root of [`Self::Sample`].
    SampleDeviation,
    /// The variance of all values: their sum by the number of values.
    Population,
    /// The square root of [`Self::Population`].
    PopulationDeviation,
}

/// The variance of a column's values, or their standard deviation; null without values.
pub struct Variance {
    function: VarianceFunction,
    column: usize,
    groups: Vec<Spread>,
}

impl Variance {
    /// The variance of a column of numbers; none for other columns.
    pub fn new(function: VarianceFunction, column: usize, field: &Field) -> Option<Self> {
        let data_type = field.data_type();
        let is_number = data_type.is_integer()
            || data_type.is_floating()
            || matches!(data_type, DataType::Decimal128(..));
        is_number.then(|| Self {
            function,
            column,
            groups: Vec::new(),
        })
    }

    fn union(&self, groups: &[usize]) -> Spread {
        groups.iter().fold(Spread::default(), |union, group| {
            union.merged(self.groups[*group])
        })
    }
}

/// The number of values, their mean, and the sum of their squared distances from it.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    /// Adds a value, by Welford's method. A sum of squares would lose the digits of values that are
    /// large beside their distances.
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
    }

    /// Returns the spread of the values of both.
    fn merged(self, other: Self) -> Self {
        if self.count == 0.0 || other.count == 0.0 {
            return if self.count == 0.0 { other } else { self };
        }
        let count = self.count + other.count;
        let distance = other.mean - self.mean;
        let part = distance * other.count / count;
        Self {
            count,
            mean: self.mean + part,
            squares: self.squares + other.squares + distance * part * self.count,
        }
    }

    fn result(self, function: VarianceFunction) -> Option<f64> {
        use VarianceFunction::{Population, PopulationDeviation, Sample, SampleDeviation};
        let divisor = match function {
            Sample | SampleDeviation => self.count - 1.0,
            Population | PopulationDeviation => self.count,
        };
        let variance = (divisor > 0.0).then(|| self.squares / divisor);
        match function {
            Sample | Population => variance,
            SampleDeviation | PopulationDeviation => variance.map(f64::sqrt),
        }
    }
}

impl Accumulator for Variance {
    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Float64; 3]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let column = |number: usize| {
            let values = state[number].as_primitive_opt::<Float64Type>();
            values.ok_or_else(|| unreadable("variance, stddev"))
        };
        let (counts, means, squares) = (column(0)?, column(1)?, column(2)?);
        let spread = |n: usize| Spread {
            count: counts.value(n),
            mean: means.value(n),
            squares: squares.value(n),
        };
        self.groups = (0..counts.len())
            .map(|n| {
                if counts.is_valid(n) {
                    spread(n)
                } else {
                    Spread::default()
                }
            })
            .collect();
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let columns: Vec<&ArrayRef> = column(input, self.column).collect();
        for row in rows {
            let (column, n) = (columns[row.place.input()], row.place.row());
            if column.is_valid(n) {
                self.groups[row.group as usize].add(float(column, n));
            }
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[GroupMerge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            self.groups[merge.into] = self.union(&merge.parts);
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let column = |of: fn(&Spread) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(self.groups.iter().map(of)))
        };
        Ok(vec![
            column(|spread| spread.count),
            column(|spread| spread.mean),
            column(|spread| spread.squares),
        ])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let results = unions
            .iter()
            .map(|groups| self.union(groups).result(self.function));
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    fn needs_order(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spread(values: &[f64]) -> Spread {
        let mut spread = Spread::default();
        values.iter().for_each(|value| spread.add(*value));
        spread
    }

    proptest! {
        #[test]
        fn results_equal_their_definition(
            values in prop::collection::vec(-1e3..1e3_f64, 1..40), parts in 1..5_usize,
            base in prop::sample::select(vec![0.0, 1e5, -1e6]),
        ) {
            let values: Vec<f64> = values.iter().map(|value| base + value).collect();
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let merged = values.chunks(values.len().div_ceil(parts)).map(spread)
                .fold(Spread::default(), Spread::merged);
            for found in [spread(&values), merged] {
                let near = |found: Option<f64>, expected: f64| {
                    let found = found.unwrap_or(f64::NAN);
                    prop_assert!((found - expected).abs() <= 1e-6 * expected.max(1.0),
                        "{} and {}", found, expected);
                    Ok(())
                };
                let squared = |deviation| found.result(deviation).map(|x: f64| x * x);
                let deviation = squared(VarianceFunction::PopulationDeviation);
                near(found.result(VarianceFunction::Population), squares / count)?;
                near(deviation, squares / count)?;
                let sample = found.result(VarianceFunction::Sample);
                let deviation = squared(VarianceFunction::SampleDeviation);
                if values.len() == 1 {
                    prop_assert_eq!((sample, deviation), (None, None));
                } else {
                    near(sample, squares / (count - 1.0))?;
                    near(deviation, squares / (count - 1.0))?;
                }
            }
        }
    }

    #[test]
    fn no_values_have_no_variance() {
        for function in [
            VarianceFunction::Sample,
            VarianceFunction::SampleDeviation,
            VarianceFunction::Population,
            VarianceFunction::PopulationDeviation,
        ] {
            assert_eq!(spread(&[]).result(function), None);
        }
    }
}
