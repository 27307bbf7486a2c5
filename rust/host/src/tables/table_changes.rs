//! The changes of a table, decoded from records of the log.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use holdfast_core::store::session::parse_record_key;
use holdfast_core::{Database, Error, ErrorKind, Result, StoreKind, Transaction};

use super::state_table::{EmitRows, StateTable};
use super::stored_rows::{RowTimes, StoredRows};
use crate::log::{Record, Records};
use crate::protocol::Epoch;

/// Decodes records of the log into rows of a table's changes.
pub struct TableChanges {
    table: Arc<StateTable>,
    /// The table's columns, without the end of a version.
    row_schema: SchemaRef,
    schema: SchemaRef,
    /// For results of groups: a database without rows.
    empty: Option<(Arc<Database>, Transaction)>,
    rows: StoredRows,
}

impl TableChanges {
    /// Returns the columns of a table's changes: `epoch`, the table's columns, `deleted`.
    pub fn schema_of(table: &StateTable) -> SchemaRef {
        let rows = row_schema(table);
        let added = |name: &str, data_type| {
            let mut name = name.to_owned();
            // The table may have a column of this name.
            while rows.fields().find(&name).is_some() {
                name.insert(0, '_');
            }
            Arc::new(Field::new(name, data_type, false))
        };
        let epoch = added("epoch", DataType::Int64);
        let deleted = added("deleted", DataType::Boolean);
        let fields: Vec<FieldRef> = std::iter::once(epoch)
            .chain(rows.fields().iter().cloned())
            .chain([deleted])
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// Makes a decoder that has no changes yet.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a table whose rows cannot be made from the log.
    pub fn new(table: Arc<StateTable>) -> Result<Self> {
        let empty = match table.value().as_groups() {
            Some(groups) => {
                let db = groups.database_without_items()?;
                let transaction = db.begin()?;
                Some((db, transaction))
            }
            None => None,
        };
        Ok(Self {
            row_schema: row_schema(&table),
            schema: Self::schema_of(&table),
            table,
            empty,
            rows: StoredRows::default(),
        })
    }

    /// The columns of the changes.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds the records of the table's store, and emits each batch that is full.
    ///
    /// # Errors
    /// `Restore` for a record that the store cannot have, `Serialization` for one that cannot be
    /// decoded; those of `emit`.
    pub fn add(&mut self, epoch: Epoch, records: &Records, emit: &mut EmitRows<'_>) -> Result<()> {
        for record in records.iter() {
            if record.store != self.table.store() {
                continue;
            }
            push(self.table.kind(), &record, &mut self.rows)?;
            if self.rows.is_full() {
                self.flush(epoch, emit)?;
            }
        }
        Ok(())
    }

    /// Emits the changes that were added. It must be called after the last records of each epoch:
    /// a batch has changes of one epoch.
    ///
    /// # Errors
    /// As [`TableChanges::add`].
    pub fn flush(&mut self, epoch: Epoch, emit: &mut EmitRows<'_>) -> Result<()> {
        if self.rows.len() == 0 {
            return Ok(());
        }
        let database = self.empty.as_mut().map(|(db, tx)| (&**db, tx));
        let fields = self.row_schema.fields();
        let (rows, _) = self
            .table
            .columns(database, fields, (&self.rows, 0), None)?;
        let epochs: ArrayRef = Arc::new(Int64Array::from_value(epoch.0, self.rows.len()));
        let deleted = self.rows.values().map(|value| Some(value.is_none()));
        let deleted: ArrayRef = Arc::new(BooleanArray::from_iter(deleted));
        let columns = std::iter::once(epochs)
            .chain(rows)
            .chain([deleted])
            .collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| {
            let text = format!("the changes of a table cannot be assembled: {error}");
            Error::new(ErrorKind::Serialization, text)
        })?;
        self.rows.clear();
        emit(batch)
    }
}

/// The columns of a table that its changes have. The end of a version is not part of its change.
fn row_schema(table: &StateTable) -> SchemaRef {
    let is_versioned = matches!(table.kind(), StoreKind::Versioned { .. });
    let after_begin = table.key().fields().len() + 1;
    let fields = table.schema().fields().iter().enumerate();
    let fields: Vec<FieldRef> = fields
        .filter(|(place, _)| !is_versioned || *place != after_begin)
        .map(|(_, field)| Arc::clone(field))
        .collect();
    Arc::new(Schema::new(fields))
}

/// Adds a record as a row. What a record's key, value and time are depends on the store's kind
/// (`core/src/database/change.rs`).
fn push(kind: &StoreKind, record: &Record<'_>, rows: &mut StoredRows) -> Result<()> {
    let damaged = |what: &str| {
        let text = format!("a record of the log {what}: restore log/ from a backup");
        Error::new(ErrorKind::Restore, text).store(record.store)
    };
    let time = || {
        let time = record.timestamp.ok_or_else(|| damaged("has no time"))?;
        Ok::<_, Error>(time.0)
    };
    let (mut key, mut value) = (record.key, record.value);
    let times = match kind {
        StoreKind::KeyValue => RowTimes::default(),
        StoreKind::TimestampedKeyValue => RowTimes {
            // The time is the value's: a deletion has none.
            begin: value.map(|_| time()).transpose()?,
            ..RowTimes::default()
        },
        StoreKind::Versioned { .. } => RowTimes {
            begin: Some(time()?),
            ..RowTimes::default()
        },
        StoreKind::Window {
            window_size,
            timestamped,
            ..
        } => {
            let begin = time()?;
            let mut timestamp = None;
            if *timestamped && let Some(stamped) = value {
                let (time, rest) = stamped
                    .split_first_chunk()
                    .ok_or_else(|| damaged("has a value without its timestamp"))?;
                (timestamp, value) = (Some(i64::from_be_bytes(*time)), Some(rest));
            }
            RowTimes {
                begin: Some(begin),
                end: Some(begin.saturating_add(*window_size)),
                timestamp,
            }
        }
        StoreKind::Session { .. } => {
            let session = parse_record_key(key).ok_or_else(|| damaged("is of no session"))?;
            key = session.key;
            RowTimes {
                begin: Some(session.start.0),
                end: Some(session.end.0),
                timestamp: None,
            }
        }
    };
    rows.push(key, value, times);
    Ok(())
}
