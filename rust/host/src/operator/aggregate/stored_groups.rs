//! The groups of an aggregation as readers see them: results computed from stored states.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::take::take;
use holdfast_core::{
    Database, DatabaseOptions, Error, ErrorKind, Result, StoreKind, StoreSpec, Transaction,
};
use xxhash_rust::xxh3::Xxh3Default;

use super::functions::{Access, Accumulators, result_type};
use super::groups::Groups;
use super::recorded_function::RecordedFunction;
use super::spec::{
    AggregateColumn, AggregateFunction, AggregateSpec, ITEMS, PROGRESS, STREAM_TIME,
};
use super::window_spec::Emit;
use super::windows::TimeProgress;
use crate::operator::input::{InputLayout, RowsSpec};
use crate::root::OperatorMeta;

/// The maximum number of groups with collected values that are read at once.
const COLLECTED_GROUPS: usize = 1_024;

/// The functions of an aggregation, as the root records them.
pub struct StoredGroups {
    spec: AggregateSpec,
    layout: InputLayout,
    fields: Vec<Field>,
}

/// A stored group: its key, its window's start (0 without windows), and its state.
pub struct StoredGroup<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// The window's start.
    pub start: i64,
    /// The state; none for a group that does not exist.
    pub state: Option<&'a [u8]>,
}

/// Returns the earliest time of the stored windows that exist for readers.
///
/// A database that was restored with a longer retention may hold groups that had expired before.
/// The collected values of these groups no longer exist.
///
/// # Errors
/// Those of the store.
pub fn first_retained(db: &Database, tx: &mut Transaction) -> Result<i64> {
    let progress = db.key_value(PROGRESS)?;
    let progress = progress.get(tx, STREAM_TIME, |bytes| {
        bytes.and_then(TimeProgress::decode)
    })?;
    Ok(progress.map_or(i64::MIN, TimeProgress::retained))
}

impl StoredGroups {
    /// Returns the groups of an aggregation; none if one of its functions is the user's. Only the
    /// user's code can compute the results of such a function.
    ///
    /// # Errors
    /// `Restore` for a recorded column that cannot be read.
    pub fn of(meta: &OperatorMeta) -> Result<Option<Self>> {
        let mut aggregates = Vec::new();
        let mut arguments = Vec::new();
        for column in &meta.value {
            let Some(recorded) = RecordedFunction::read(column)? else {
                return Ok(None);
            };
            let mut columns = arguments.len()..arguments.len() + recorded.arguments.len();
            aggregates.push(AggregateColumn {
                name: column.name.clone(),
                function: recorded.function,
                column: columns.next(),
                order: columns.next(),
                limit: recorded.limit,
                declared: None,
            });
            arguments.extend(recorded.arguments);
        }
        let name = |n: usize| format!("argument {n}");
        let spec = AggregateSpec {
            rows: RowsSpec {
                keys: meta.key.iter().map(|column| column.name.clone()).collect(),
                left: (0..arguments.len()).map(name).collect(),
                right: Vec::new(),
                times: Vec::new(),
                order_left: Vec::new(),
                order_right: Vec::new(),
            },
            aggregates,
            window: None,
            timed: meta.settings.get("timed").and_then(|timed| timed.as_bool()) == Some(true),
            grace: None,
            emit: Emit::default(),
            retention: None,
            last: false,
            columns: Vec::new(),
        };
        let mut fields = vec![
            Field::new("pid", DataType::Int32, false),
            Field::new("side", DataType::Boolean, true),
            Field::new("deleted", DataType::Boolean, true),
            Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        ];
        for column in &meta.key {
            fields.push(column.field()?);
        }
        let arguments = arguments.into_iter().enumerate();
        fields.extend(arguments.map(|(n, data_type)| Field::new(name(n), data_type, true)));
        let schema = Schema::new(fields);
        let layout = InputLayout::new("aggregate", &spec.rows, &schema)?;
        let fields = spec.aggregates.iter().map(|aggregate| {
            let argument = aggregate
                .column
                .map(|column| layout.field(layout.left.start + column).data_type());
            let data_type = result_type(aggregate, argument);
            Field::new(&aggregate.name, data_type, true)
        });
        Ok(Some(Self {
            fields: fields.collect(),
            spec,
            layout,
        }))
    }

    /// The columns of the results.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns an empty database in memory. [`StoredGroups::results`] takes it for groups whose
    /// states do not come from a partition's database.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the results need single values, which are not in the states.
    pub fn database_without_items(&self) -> Result<Arc<Database>> {
        if let Some(aggregate) = self.collecting() {
            let text = format!(
                "column {} is a {}: its values are not in the log's records of the groups, so the \
                 table has no changes. Scan the table, or leave the column out of the aggregation",
                aggregate.name,
                aggregate.function.name()
            );
            return Err(Error::new(ErrorKind::UnsupportedOperation, text));
        }
        let items = StoreSpec::new(ITEMS, StoreKind::KeyValue);
        Database::open_in_memory(&[items], DatabaseOptions::default())
    }

    /// Returns the first function whose values are not in the groups' states.
    fn collecting(&self) -> Option<&AggregateColumn> {
        let collects = |aggregate: &&AggregateColumn| {
            let function = aggregate.function;
            matches!(
                function,
                AggregateFunction::CollectList | AggregateFunction::CollectSet
            )
        };
        self.spec.aggregates.iter().find(collects)
    }

    /// Returns the results of the first groups, and the number of these groups. A result is a row;
    /// a group that does not exist has a row of nulls.
    ///
    /// The number of groups is limited only if they collect values: to `COLLECTED_GROUPS`, and to
    /// `most` bytes of values. It is at least one.
    ///
    /// # Errors
    /// `Serialization` for a state that cannot be read; those of the store.
    pub fn results(
        &self,
        db: &Database,
        tx: &mut Transaction,
        stored: &[StoredGroup<'_>],
        most: usize,
    ) -> Result<(Vec<ArrayRef>, usize)> {
        let mut accumulators = Accumulators::new(&self.spec, &self.layout)?;
        // The states of groups that do not fit are loaded again in a later call.
        let part = self.collecting().map_or(usize::MAX, |_| COLLECTED_GROUPS);
        let stored = &stored[..stored.len().min(part)];
        let (mut groups, mut states) = (Groups::default(), Vec::new());
        let mut places: Vec<Option<u64>> = Vec::with_capacity(stored.len());
        for group in stored {
            places.push(group.state.map(|state| {
                let number = groups.enter(group.key, group.start);
                // A key may be in the list twice.
                if number as usize == states.len() {
                    states.push(Some(state));
                }
                number.into()
            }));
        }
        accumulators.load(&states)?;
        let items = db.key_value(ITEMS)?;
        let mut access = Access {
            groups: &groups,
            items: &items,
            tx,
            worker: &mut |_| Ok(()),
        };
        let (mut count, mut size) = (0, 0_usize);
        for place in &places {
            let mut bytes = 0_usize;
            if let Some(group) = place.and_then(|group| usize::try_from(group).ok()) {
                for accumulator in accumulators.iter_mut() {
                    bytes = bytes.saturating_add(accumulator.item_bytes(group, &mut access)?);
                }
            }
            size = size.saturating_add(bytes);
            if count > 0 && size > most {
                break;
            }
            count += 1;
        }
        places.truncate(count);
        let shown = places.iter().flatten().max().map_or(0, |last| last + 1);
        let numbers: Vec<usize> = (0..usize::try_from(shown).unwrap_or(0)).collect();
        let unions: Vec<&[usize]> = numbers.chunks(1).collect();
        let places = UInt64Array::from(places);
        let columns = accumulators.iter_mut().map(|accumulator| {
            let results = accumulator.result(&unions, &mut access, &mut Xxh3Default::new())?;
            take(&results, &places, None).map_err(|error| {
                let text = format!("the results of groups cannot be assembled: {error}");
                Error::new(ErrorKind::Serialization, text)
            })
        });
        Ok((columns.collect::<Result<_>>()?, count))
    }
}
