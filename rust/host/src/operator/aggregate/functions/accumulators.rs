//! All functions of an aggregation, with the states of groups.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Field;
use holdfast_core::Result;

use super::accumulator::{Access, Accumulator};
use super::registry::accumulator;
use super::user::check_state_size;
use crate::codec::row::{EncodedRows, RowCodec};
use crate::operator::aggregate::groups::{Assigned, GroupMerge, Groups};
use crate::operator::aggregate::spec::AggregateSpec;
use crate::operator::input::{InputLayout, InputRows};

/// The functions of an aggregation, in the order of the result's columns.
pub struct Accumulators {
    list: Vec<Box<dyn Accumulator>>,
    /// The codec of a group's state.
    codec: RowCodec,
    has_user_functions: bool,
}

impl Accumulators {
    /// The functions of these settings.
    ///
    /// # Errors
    /// As [`accumulator`]; `InvalidType` for a state that cannot be stored.
    pub fn new(spec: &AggregateSpec, layout: &InputLayout) -> Result<Self> {
        let numbered = spec.aggregates.iter().enumerate();
        let list: Vec<_> = numbered
            .map(|(number, aggregate)| accumulator(number, aggregate, spec, layout))
            .collect::<Result<_>>()?;
        Ok(Self {
            // The state types of the user's functions are not known yet: the worker sends them.
            codec: codec(&list)?,
            list,
            has_user_functions: spec.has_user_functions(),
        })
    }

    /// Takes the state types of the user's functions, which the worker has sent.
    ///
    /// # Errors
    /// As [`Accumulator::begin`]; `InvalidType` for a state that cannot be stored.
    pub fn begin(&mut self, states: &RecordBatch) -> Result<()> {
        self.iter_mut()
            .try_for_each(|accumulator| accumulator.begin(states))?;
        self.codec = codec(&self.list)?;
        Ok(())
    }

    /// The functions.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Accumulator>> {
        self.list.iter_mut()
    }

    /// Whether the result of a function depends on the order of the rows.
    pub fn need_order(&self) -> bool {
        self.list
            .iter()
            .any(|accumulator| accumulator.needs_order())
    }

    /// Whether groups have items beside their states.
    pub fn have_items(&self) -> bool {
        self.list.iter().any(|accumulator| accumulator.has_items())
    }

    /// Takes the stored states of groups; none for a new group.
    ///
    /// # Errors
    /// `Serialization` for states that cannot be read, or that are too large together.
    pub fn load(&mut self, stored: &[Option<&[u8]>]) -> Result<()> {
        let states = self.list.iter();
        let mut types = states.flat_map(|accumulator| accumulator.state_types());
        if self.has_user_functions && types.any(|state| state.primitive_width().is_none()) {
            check_state_size(stored.iter().flatten().map(|state| state.len()).sum())?;
        }
        let states = self.codec.decode(stored.iter().copied())?;
        let mut states = states.into_iter();
        self.iter_mut().try_for_each(|accumulator| {
            let count = accumulator.state_types().len();
            let columns: Vec<ArrayRef> = states.by_ref().take(count).collect();
            accumulator.load(&columns)
        })
    }

    /// Like [`Self::load`], and frees the encoded states.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_owned(&mut self, stored: Vec<Option<Vec<u8>>>) -> Result<()> {
        let states: Vec<Option<&[u8]>> = stored.iter().map(Option::as_deref).collect();
        self.load(&states)
    }

    /// Merges groups permanently.
    ///
    /// # Errors
    /// As [`Accumulator::merge`].
    pub fn merge(&mut self, merges: &[GroupMerge], access: &mut Access<'_>) -> Result<()> {
        self.iter_mut()
            .try_for_each(|accumulator| accumulator.merge(merges, access))
    }

    /// Adds rows, in order.
    ///
    /// # Errors
    /// As [`Accumulator::update`].
    pub fn update(
        &mut self,
        input: &InputRows,
        rows: &[Assigned],
        access: &mut Access<'_>,
    ) -> Result<()> {
        self.iter_mut()
            .try_for_each(|accumulator| accumulator.update(input, rows, access))
    }

    /// Adds the rows that are still pending, after the last [`Self::update`].
    ///
    /// # Errors
    /// As [`Accumulator::update`].
    pub fn finish(&mut self, access: &mut Access<'_>) -> Result<()> {
        self.iter_mut()
            .try_for_each(|accumulator| accumulator.finish(access))
    }

    /// Returns the groups of pending rows. The next part of the rows continues with these groups in
    /// place of `groups`.
    pub fn carry_pending(&mut self, groups: &Groups) -> Groups {
        let mut next = Groups::default();
        self.iter_mut()
            .for_each(|accumulator| accumulator.carry_pending(groups, &mut next));
        next
    }

    /// Returns the states to store, by group.
    ///
    /// # Errors
    /// `Serialization` for states that cannot be encoded.
    pub fn states(&self) -> Result<EncodedRows> {
        let columns = self.list.iter().map(|accumulator| accumulator.state());
        let columns = columns.collect::<Result<Vec<_>>>()?.concat();
        self.codec.encode(&columns)
    }

    /// Deletes a group's items.
    ///
    /// # Errors
    /// Those of the store.
    pub fn delete_items(&self, group: usize, access: &mut Access<'_>) -> Result<()> {
        self.list
            .iter()
            .try_for_each(|accumulator| accumulator.delete_items(group, access))
    }
}

/// Returns the codec of a group's state.
fn codec(accumulators: &[Box<dyn Accumulator>]) -> Result<RowCodec> {
    let types = accumulators
        .iter()
        .flat_map(|accumulator| accumulator.state_types());
    let fields: Vec<Field> = types
        .map(|data_type| Field::new("state", data_type, true))
        .collect();
    RowCodec::new(&fields)
}
