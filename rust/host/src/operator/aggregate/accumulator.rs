//! What a function keeps of each group, and what it says of it: one accumulator a column of the
//! result.
//!
//! `count.rs`, `sum.rs`, `avg.rs` (`decimal.rs` their decimals) · `pick.rs` one value of many (min,
//! max, first, last) · `items.rs` single values kept in a store (distinct, lists, sets) · `own.rs`
//! the user's own function, in the worker.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use holdfast_core::{Error, ErrorKind, KeyValueStore, Result, Transaction};
use xxhash_rust::xxh3::Xxh3Default;

use super::avg::{Avg, AvgExact};
use super::count::Count;
use super::groups::Groups;
use super::items::{Items, Kind};
use super::own::Own;
use super::pick::{Pick, Which};
use super::spec::{Aggregate, Function, Spec};
use super::sum::Sum;
use crate::operator::Worker;
use crate::operator::rows::{Layout, Place, Rows};

/// A row and a group that it belongs to.
#[derive(Clone, Copy)]
pub struct Assigned {
    /// The group's number.
    pub group: u32,
    /// Where the row lies.
    pub place: Place,
    /// The row's time; the least where rows have none.
    pub time: i64,
}

/// Stored groups that become one.
#[derive(Debug, PartialEq, Eq)]
pub struct Merge {
    /// The group that they become.
    pub into: usize,
    /// The groups, in the order of time; `into` may be the first of them, the others are no groups
    /// any more.
    pub parts: Vec<usize>,
}

/// What an accumulator works on beside its own state.
pub struct Access<'a> {
    /// The groups.
    pub groups: &'a Groups,
    /// The store of single values.
    pub items: &'a KeyValueStore,
    /// The epoch's transaction.
    pub tx: &'a mut Transaction,
    /// Where the user's own functions are.
    pub worker: &'a mut dyn Worker,
}

/// One function over all groups of an epoch.
pub trait Accumulator: Send {
    /// Takes what the worker says of the user's own functions: a column each, of the type of its
    /// state.
    ///
    /// # Errors
    /// `InvalidState` for a worker that says nothing of this one.
    fn begin(&mut self, _states: &RecordBatch) -> Result<()> {
        Ok(())
    }

    /// The types of what is kept of a group.
    fn state_types(&self) -> Vec<DataType>;

    /// Takes what was kept: a row a group, nulls for a new one.
    ///
    /// # Errors
    /// `Serialization` for columns of other types.
    fn load(&mut self, state: &[ArrayRef]) -> Result<()>;

    /// Takes rows, in order.
    ///
    /// # Errors
    /// `InvalidValue` for a result that its type cannot hold; the store's.
    fn update(&mut self, input: &Rows, rows: &[Assigned], access: &mut Access<'_>) -> Result<()>;

    /// Makes groups one, for good.
    ///
    /// # Errors
    /// As [`Self::update`].
    fn merge(&mut self, merges: &[Merge], access: &mut Access<'_>) -> Result<()>;

    /// What is to be kept: a row a group.
    ///
    /// # Errors
    /// `Serialization` for columns that cannot be assembled.
    fn state(&self) -> Result<Vec<ArrayRef>>;

    /// The results of these unions of groups, each in the order of time; what they say beyond their
    /// groups' state goes into the digest.
    ///
    /// # Errors
    /// As [`Self::update`].
    fn result(
        &mut self,
        unions: &[&[usize]],
        access: &mut Access<'_>,
        digest: &mut Xxh3Default,
    ) -> Result<ArrayRef>;

    /// About how many bytes of a result come from what is kept of a group beside its state; read
    /// once, for [`Self::result`], too.
    ///
    /// # Errors
    /// The store's.
    fn item_bytes(&mut self, _group: usize, _access: &mut Access<'_>) -> Result<usize> {
        Ok(0)
    }

    /// Whether something is kept of a group beside its state.
    fn keeps_items(&self) -> bool {
        false
    }

    /// Deletes what is kept of a group beside its state.
    ///
    /// # Errors
    /// The store's.
    fn forget(&self, _group: usize, _access: &mut Access<'_>) -> Result<()> {
        Ok(())
    }

    /// Whether the order of rows of one group changes the result.
    fn needs_order(&self) -> bool {
        false
    }
}

/// The accumulator of a column of the result; `number` is the column's.
///
/// # Errors
/// `InvalidType` for a column that the function cannot take.
pub fn accumulator(
    number: usize,
    aggregate: &Aggregate,
    spec: &Spec,
    layout: &Layout,
) -> Result<Box<dyn Accumulator>> {
    let Some(index) = aggregate.column else {
        return Ok(match aggregate.function {
            Function::Own => Box::new(Own::new(number, &aggregate.name, &spec.columns, layout)?),
            _ => Box::new(Count::new(None)),
        });
    };
    let column = layout.left.start + index;
    let field = layout.field(column);
    let refused = || {
        let function = aggregate.function.name();
        let text = format!(
            "{function}: column {:?} is {}, which it cannot take",
            field.name(),
            field.data_type()
        );
        Error::new(ErrorKind::InvalidType, text)
    };
    let pick = |which| {
        Pick::new(which, column, field, spec.timed)
            .map(|pick| -> Box<dyn Accumulator> { Box::new(pick) })
    };
    let items = |kind| {
        Items::new(kind, number, column, field, spec.timed)
            .map(|items| -> Box<dyn Accumulator> { Box::new(items) })
    };
    Ok(match aggregate.function {
        Function::Count | Function::Own => Box::new(Count::new(Some(column))),
        Function::Sum => Sum::accumulator(column, field).ok_or_else(refused)?,
        Function::Avg => match AvgExact::new(column, field) {
            Some(exact) => Box::new(exact),
            None => Box::new(Avg::new(column, field).ok_or_else(refused)?),
        },
        Function::Min => pick(Which::Min)?,
        Function::Max => pick(Which::Max)?,
        Function::First => pick(Which::First)?,
        Function::Last => pick(Which::Last)?,
        Function::CountDistinct => items(Kind::CountDistinct)?,
        Function::CollectList => items(Kind::List)?,
        Function::CollectSet => items(Kind::Set)?,
    })
}

/// A column of every batch of the input.
pub fn column(input: &Rows, column: usize) -> impl Iterator<Item = &ArrayRef> {
    input
        .inputs
        .iter()
        .map(move |input| input.batch.column(column))
}

/// A column of a state that was kept as something else.
pub fn unreadable(function: &str) -> Error {
    Error::new(
        ErrorKind::Serialization,
        format!(
            "{function}: what was kept of a group cannot be read: restore the state from a backup"
        ),
    )
}

/// A result that does not fit its type.
pub fn overflow(field: &str, function: &str, wanted: &str) -> Error {
    let text =
        format!("{function}({field}) does not fit {wanted}: cast the column to a wider type");
    Error::new(ErrorKind::InvalidValue, text)
}
