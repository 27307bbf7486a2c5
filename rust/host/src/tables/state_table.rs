//! A table of a query's state: a store of an operator, as rows of the user's columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use holdfast_core::{Database, Error, ErrorKind, Result, StoreKind, Transaction};

use super::key_form::KeyForm;
use super::key_range::KeyRange;
use super::read_call::{ReadCall, ReadRows, with_found};
use super::store_handle::{StoreHandle, TableScan, TimeSpan, without_versions};
use super::stored_rows::{StoredRows, batch_bytes};
use super::time_column::{TimeColumn, TimeOf, time_columns};
use super::value_form::ValueForm;
use crate::memory::budget::Share;
use crate::operator::aggregate::first_retained;

/// A table of an operator.
pub struct StateTable {
    store: String,
    kind: StoreKind,
    key: KeyForm,
    times: Vec<TimeColumn>,
    value: ValueForm,
    schema: SchemaRef,
    /// The columns of a read of keys with all columns.
    whole_schema_of_get: SchemaRef,
}

/// A function that takes the batches of a read, in order.
pub type EmitRows<'a> = dyn FnMut(RecordBatch) -> Result<()> + 'a;

impl StateTable {
    /// A table in a store of this kind.
    ///
    /// `time`: the operator's time column, if its rows have a time.
    pub fn new(
        store: &str,
        kind: StoreKind,
        key: KeyForm,
        value: ValueForm,
        time: Option<&Field>,
    ) -> Self {
        Self::with_times(
            store,
            kind.clone(),
            key,
            value,
            (time, time_columns(&kind, time)),
        )
    }

    /// A table of groups: a window's columns have the names of an aggregation's result.
    ///
    /// `gap` is added to the end of a session window, because a stored session ends with its last
    /// row.
    pub fn of_groups(
        store: &str,
        kind: StoreKind,
        key: KeyForm,
        value: ValueForm,
        (time, gap): (Option<&Field>, i64),
    ) -> Self {
        let times = match kind {
            StoreKind::Window { .. } | StoreKind::Session { .. } => vec![
                TimeOf::new("window_start", |times| times.begin, 0),
                TimeOf::new("window_end", |times| times.end, gap),
            ],
            _ => Vec::new(),
        };
        Self::with_times(store, kind, key, value, (time, times))
    }

    fn with_times(
        store: &str,
        kind: StoreKind,
        key: KeyForm,
        value: ValueForm,
        (time, times): (Option<&Field>, Vec<TimeOf>),
    ) -> Self {
        let time_type = time.map_or_else(
            || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            |time| time.data_type().clone(),
        );
        // A column of the user's may have the same name.
        let taken = |name: &str| {
            let mut fields = key.fields().iter().chain(value.fields());
            fields.any(|field| field.name() == name)
        };
        let times: Vec<TimeColumn> = times
            .into_iter()
            .map(|mut time| {
                while taken(&time.name) {
                    time.name.insert(0, '_');
                }
                TimeColumn {
                    time,
                    data_type: time_type.clone(),
                }
            })
            .collect();
        let key_fields = key.fields().iter().cloned();
        let time_fields = times
            .iter()
            .map(|time| Field::new(&time.time.name, time.data_type.clone(), true));
        // A floating-point key column is a payload column, too: there a zero keeps its sign.
        let is_key = |name: &str| key.fields().iter().any(|field| field.name() == name);
        let value_fields = value.fields().iter().cloned();
        let value_fields = value_fields.filter(|field| !is_key(field.name()));
        let fields: Vec<Field> = key_fields
            .chain(time_fields)
            .chain(value_fields)
            .map(|field| field.with_nullable(true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        Self {
            store: store.to_owned(),
            kind,
            key,
            times,
            value,
            whole_schema_of_get: with_found(&schema),
            schema,
        }
    }

    /// The store's name.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// The store's kind.
    pub fn kind(&self) -> &StoreKind {
        &self.kind
    }

    /// The columns of a row: the key's, its times, the value's.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The key's columns.
    pub fn key(&self) -> &KeyForm {
        &self.key
    }

    /// The value's columns.
    pub fn value(&self) -> &ValueForm {
        &self.value
    }

    /// Returns the columns of a read's result.
    ///
    /// # Errors
    /// `InvalidValue` names a column that the table does not have, or that is named twice. Repeated
    /// columns would multiply the memory of an answer.
    pub fn schema_of(&self, call: &ReadCall) -> Result<SchemaRef> {
        let Some(columns) = &call.columns else {
            return Ok(Arc::clone(&self.schema));
        };
        let mut named = HashSet::with_capacity(columns.len());
        let fields = columns
            .iter()
            .map(|name| {
                if !named.insert(name) {
                    let text = format!("column {name:?} is named twice: name it once");
                    return Err(Error::new(ErrorKind::InvalidValue, text));
                }
                let field = self.schema.fields().find(name).map(|(_, field)| field);
                field.cloned().ok_or_else(|| {
                    let names: Vec<&String> =
                        self.schema.fields().iter().map(|f| f.name()).collect();
                    let text = format!("the table has no column {name:?}; it has {names:?}");
                    Error::new(ErrorKind::InvalidValue, text)
                })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Returns the columns of a read of keys: those of [`StateTable::schema_of`], and
    /// [`FOUND`](super::FOUND).
    ///
    /// # Errors
    /// As [`StateTable::schema_of`].
    pub fn schema_of_get(&self, call: &ReadCall) -> Result<SchemaRef> {
        if call.columns.is_none() {
            return Ok(Arc::clone(&self.whole_schema_of_get));
        }
        let schema = self.schema_of(call)?;
        Ok(with_found(&schema))
    }

    /// Reads rows of a view of a partition's database, and passes them to `emit` in batches.
    ///
    /// `memory`: limits the size of the batches.
    ///
    /// # Errors
    /// `InvalidValue` and `InvalidType` for a call or a batch that does not fit the table,
    /// `UnsupportedOperation` for a read that the kind of store does not support, `Serialization`
    /// for rows that cannot be encoded or decoded; those of the store and of `emit`.
    pub fn read(
        &self,
        (db, tx): (&Database, &mut Transaction),
        call: &ReadCall,
        batch: &RecordBatch,
        memory: &mut Share,
        emit: &mut EmitRows<'_>,
    ) -> Result<()> {
        let store = StoreHandle::open(db, &self.store, &self.kind)?;
        if call.as_of.is_some() && !matches!(self.kind, StoreKind::Versioned { .. }) {
            return Err(without_versions());
        }
        if call.rows == ReadRows::Get {
            return self.read_keys((db, tx), &store, call, (batch, memory), emit);
        }
        let schema = self.schema_of(call)?;
        let range = self.range(call.rows, batch)?;
        let mut scan: TableScan = match call.rows {
            ReadRows::VersionsOfKey | ReadRows::Versions => {
                store.versions(tx, range, call.span())?
            }
            _ => {
                let mut span = self.span(call);
                span.from = span.from.max(self.first_retained(db, tx)?);
                store.scan(tx, range, call.as_of, span)?
            }
        };
        let mut left = call.limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let mut rows = StoredRows::default();
        loop {
            rows.restart(batch_bytes(memory));
            let has_more = scan.next(&mut rows, left)?;
            left -= rows.len();
            let mut start = 0;
            while start < rows.len() {
                let fields = schema.fields();
                let (columns, count) =
                    self.columns(Some((db, tx)), fields, (&rows, start), None)?;
                // A read may ask for no columns.
                let options = RecordBatchOptions::new().with_row_count(Some(count));
                let part =
                    RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
                        .map_err(|error| not_assembled(&error))?;
                emit(part)?;
                start += count;
            }
            if !has_more || left == 0 {
                return Ok(());
            }
        }
    }

    /// The earliest stored time of the windows that an aggregation retains; none in other tables.
    pub(super) fn first_retained(
        &self,
        db: &Database,
        tx: &mut Transaction,
    ) -> Result<Option<i64>> {
        let is_windowed = matches!(
            self.kind,
            StoreKind::Window { .. } | StoreKind::Session { .. }
        );
        if self.value.as_groups().is_none() || !is_windowed {
            return Ok(None);
        }
        first_retained(db, tx).map(Some)
    }

    /// The time that is added to a stored session's end in a result.
    pub(super) fn end_offset(&self) -> i64 {
        self.times.get(1).map_or(0, |end| end.time.plus)
    }

    /// The times that a scan is limited to, as they are stored.
    fn span(&self, call: &ReadCall) -> TimeSpan {
        let mut span = call.span();
        if matches!(self.kind, StoreKind::Session { .. }) {
            span.from = span.from.map(|from| from.saturating_sub(self.end_offset()));
        }
        span
    }

    /// The range of keys that a scan asks for.
    fn range(&self, rows: ReadRows, batch: &RecordBatch) -> Result<KeyRange> {
        let bounds = match rows {
            ReadRows::Get | ReadRows::All | ReadRows::Versions => 0,
            ReadRows::Between => 2,
            ReadRows::Prefix | ReadRows::From | ReadRows::To | ReadRows::VersionsOfKey => 1,
        };
        if batch.num_rows() != bounds && bounds > 0 {
            let text = format!(
                "a read has {} bounds, and {rows:?} takes {bounds}",
                batch.num_rows()
            );
            return Err(Error::new(ErrorKind::InvalidValue, text));
        }
        let bound = |row: usize| self.key.encode_bound(batch, row);
        Ok(match rows {
            ReadRows::Get | ReadRows::All | ReadRows::Versions => KeyRange::default(),
            ReadRows::VersionsOfKey if batch.num_columns() >= self.key.fields().len() => {
                KeyRange::one(bound(0)?)
            }
            ReadRows::Prefix | ReadRows::VersionsOfKey => KeyRange::prefix(bound(0)?),
            ReadRows::From => KeyRange {
                lower: Some(bound(0)?),
                ..KeyRange::default()
            },
            // A bound of the key's first columns includes all keys that have them.
            ReadRows::To => KeyRange {
                upper: Some(bound(0)?),
                includes_longer: batch.num_columns() < self.key.fields().len(),
                lower: None,
            },
            ReadRows::Between => KeyRange {
                lower: Some(bound(0)?),
                upper: Some(bound(1)?),
                includes_longer: batch.num_columns() < self.key.fields().len(),
            },
        })
    }

    /// Returns these columns of the rows from row `start` on, and how many rows they have: as many
    /// as fit, and at least one. `keys` are the key's columns of all rows, if they are known.
    pub(super) fn columns(
        &self,
        database: Option<(&Database, &mut Transaction)>,
        asked: &[FieldRef],
        (rows, start): (&StoredRows, usize),
        keys: Option<&[ArrayRef]>,
    ) -> Result<(Vec<ArrayRef>, usize)> {
        let wants = |fields: &[Field]| {
            let is_asked = |name: &str| asked.iter().any(|field| field.name() == name);
            fields.iter().any(|field| is_asked(field.name()))
        };
        let mut place = start..rows.len();
        let values = if wants(self.value.fields()) {
            let (values, count) = self.value.decode(database, rows, start)?;
            place.end = start + count;
            Some(values)
        } else {
            None
        };
        let keys = match keys {
            Some(keys) => Some(
                keys.iter()
                    .map(|keys| keys.slice(place.start, place.len()))
                    .collect(),
            ),
            None if wants(self.key.fields()) => {
                let keys = rows.keys().skip(place.start).take(place.len());
                Some(self.key.decode(keys)?)
            }
            None => None,
        };
        let columns = asked.iter().map(|field| {
            let number = |fields: &[Field]| fields.iter().position(|f| f.name() == field.name());
            let of = |columns: &Option<Vec<ArrayRef>>, n: usize| {
                columns.as_ref().and_then(|columns| columns.get(n)).cloned()
            };
            let key = number(self.key.fields()).and_then(|n| of(&keys, n));
            let value = || number(self.value.fields()).and_then(|n| of(&values, n));
            let time = || {
                let time = self
                    .times
                    .iter()
                    .find(|time| time.time.name == *field.name())?;
                Some(time.column(&rows.times()[place.clone()]))
            };
            key.or_else(value).or_else(time).ok_or_else(|| {
                let text = format!("column {} cannot be made", field.name());
                Error::new(ErrorKind::InvalidState, text)
            })
        });
        Ok((columns.collect::<Result<_>>()?, place.len()))
    }
}

/// The error of rows that cannot be put together.
pub fn not_assembled(error: &ArrowError) -> Error {
    Error::new(
        ErrorKind::Serialization,
        format!("the rows of a read cannot be assembled: {error}"),
    )
}
