//! The functions by name.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use holdfast_core::{Error, ErrorKind, Result};

use super::accumulator::Accumulator;
use super::avg::{Avg, AvgExact};
use super::collected::{Items, ItemsFunction};
use super::count::{Count, Counted};
use super::decimal::{MAX_PRECISION, wider};
use super::picked::{Pick, PickFunction, picked_values};
use super::ranked::{RankedValues, Ranking, RankingOrder};
use super::sum::Sum;
use super::user::UserFunction;
use super::variance::{Variance, VarianceFunction};
use crate::operator::aggregate::spec::{AggregateColumn, AggregateFunction, AggregateSpec};
use crate::operator::input::InputLayout;

/// Returns the type of the result of a built-in function; `argument` is the type of its column.
pub fn result_type(aggregate: &AggregateColumn, argument: Option<&DataType>) -> DataType {
    let Some(argument) = argument else {
        return DataType::Int64;
    };
    if aggregate.limit.is_some() {
        return DataType::List(Arc::new(Field::new("element", argument.clone(), true)));
    }
    match (aggregate.function, argument) {
        (
            AggregateFunction::Count
            | AggregateFunction::CountIf
            | AggregateFunction::CountDistinct,
            _,
        ) => DataType::Int64,
        (
            AggregateFunction::Variance
            | AggregateFunction::Stddev
            | AggregateFunction::VarPop
            | AggregateFunction::StddevPop,
            _,
        ) => DataType::Float64,
        (AggregateFunction::CollectList | AggregateFunction::CollectSet, _) => {
            DataType::List(Arc::new(Field::new("element", argument.clone(), false)))
        }
        (AggregateFunction::Sum, DataType::Decimal128(precision, scale)) => {
            DataType::Decimal128(wider(*precision, 10), *scale)
        }
        (AggregateFunction::Avg, DataType::Decimal128(precision, scale)) => {
            DataType::Decimal128(wider(*precision, 4), (scale + 4).min(MAX_PRECISION as i8))
        }
        (
            AggregateFunction::Sum,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64,
        ) => DataType::Int64,
        (AggregateFunction::Sum, DataType::Float32 | DataType::Float64) => DataType::Float64,
        (AggregateFunction::Avg, other) if !matches!(other, DataType::Duration(_)) => {
            DataType::Float64
        }
        _ => argument.clone(),
    }
}

/// Returns the accumulator of the result's column `number`.
///
/// # Errors
/// `InvalidType` for a column that the function does not accept; those of [`UserFunction::new`] and
/// [`Items::new`].
pub fn accumulator(
    number: usize,
    aggregate: &AggregateColumn,
    spec: &AggregateSpec,
    layout: &InputLayout,
) -> Result<Box<dyn Accumulator>> {
    let Some(index) = aggregate.column else {
        return Ok(match aggregate.function {
            AggregateFunction::User => Box::new(UserFunction::new(
                number,
                &aggregate.name,
                &spec.columns,
                layout,
            )?),
            _ => Box::new(Count::new(Counted::Rows)),
        });
    };
    let column = layout.left.start + index;
    let field = layout.field(column);
    let refused = || {
        let function = aggregate.function.name();
        let text = format!(
            "{function}: column {:?} is {}, which the function does not accept",
            field.name(),
            field.data_type()
        );
        Error::new(ErrorKind::InvalidType, text)
    };
    let timed = spec.timed;
    let pick = |function| {
        let pick = Pick {
            function,
            column,
            timed,
        };
        picked_values(pick, field)
    };
    let items = |kind| {
        Items::new(kind, number, column, field, timed)
            .map(|items| -> Box<dyn Accumulator> { Box::new(items) })
    };
    let ranked = |order| {
        let by = layout.left.start + aggregate.order.ok_or_else(refused)?;
        let limit = aggregate.limit;
        RankedValues::new(
            Ranking { order, limit },
            (by, layout.field(by)),
            (column, field),
        )
        .map(|ranked| -> Box<dyn Accumulator> { Box::new(ranked) })
    };
    let variance = |function| {
        Variance::new(function, column, field)
            .map(|variance| -> Box<dyn Accumulator> { Box::new(variance) })
            .ok_or_else(refused)
    };
    Ok(match aggregate.function {
        AggregateFunction::Count | AggregateFunction::User => {
            Box::new(Count::new(Counted::Values(column)))
        }
        AggregateFunction::CountIf | AggregateFunction::BoolAnd | AggregateFunction::BoolOr
            if *field.data_type() != DataType::Boolean =>
        {
            return Err(refused());
        }
        AggregateFunction::CountIf => Box::new(Count::new(Counted::True(column))),
        // False is less than true.
        AggregateFunction::BoolAnd => pick(PickFunction::Min)?,
        AggregateFunction::BoolOr => pick(PickFunction::Max)?,
        AggregateFunction::Variance => variance(VarianceFunction::Sample)?,
        AggregateFunction::Stddev => variance(VarianceFunction::SampleDeviation)?,
        AggregateFunction::VarPop => variance(VarianceFunction::Population)?,
        AggregateFunction::StddevPop => variance(VarianceFunction::PopulationDeviation)?,
        AggregateFunction::Sum => Sum::accumulator(column, field).ok_or_else(refused)?,
        AggregateFunction::Avg => match AvgExact::new(column, field) {
            Some(exact) => Box::new(exact),
            None => Box::new(Avg::new(column, field).ok_or_else(refused)?),
        },
        AggregateFunction::Min => pick(PickFunction::Min)?,
        AggregateFunction::Max => pick(PickFunction::Max)?,
        AggregateFunction::First => pick(PickFunction::First)?,
        AggregateFunction::Last => pick(PickFunction::Last)?,
        AggregateFunction::CountDistinct => items(ItemsFunction::CountDistinct)?,
        AggregateFunction::CollectList => items(ItemsFunction::List)?,
        AggregateFunction::CollectSet => items(ItemsFunction::Set)?,
        AggregateFunction::MaxBy => ranked(RankingOrder::Greatest)?,
        AggregateFunction::MinBy => ranked(RankingOrder::Least)?,
    })
}
