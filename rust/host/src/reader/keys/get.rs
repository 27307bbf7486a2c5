//! Reads of many keys.

use arrow_array::{RecordBatch, UInt64Array};
use arrow_select::take::take_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use super::key_answers::{KeyAnswers, SameKey};
use crate::net::read::ReadTarget;
use crate::net::request::USUAL_REQUEST;
use crate::net::stored_read::{self, StoredRead};
use crate::protocol::{Epoch, PartitionId};
use crate::reader::host_connection::ReadFailure;
use crate::reader::read_from::{AnswerState, Offline, ReadFrom, RowsAtEpoch};
use crate::reader::read_source::ReadSource;
use crate::reader::state_reader::StateReader;
use crate::reader::table_catalog::NamedTable;
use crate::tables::{FEW_KEYS, ReadCall, ReadRows, not_assembled};

/// A read of this many keys or more has [`LANES`] connections to each host. With fewer keys, a
/// second request costs as much as it saves.
const MANY_KEYS: usize = 4096;

/// The connections to a host that answer one read at the same time. A task of Spark has one core:
/// more would only compete with other tasks.
const LANES: usize = 2;

/// How many times keys are read if hosts end meanwhile.
const ATTEMPTS: usize = 3;

impl StateReader {
    /// Reads one row for each row of `keys`, in their order. A key that is not found gives nulls,
    /// and the last column, [`FOUND`](crate::tables::FOUND), says whether it was found. A large
    /// result has several batches.
    ///
    /// # Errors
    /// `StateMismatch` or `InvalidValue` for an operator, a table or a column that does not exist;
    /// `InvalidType` for keys of other types than the table's; `UnsupportedOperation` if several
    /// partitions have a row of one key, which only a processor can cause; `NotUpToBound` if the
    /// epoch is not final in time; `Restore` if the root does not hold the epoch's state;
    /// `InvalidState` if hosts end during each of several attempts.
    pub fn get(
        &self,
        (operator, store): (&str, &str),
        call: &ReadCall,
        keys: &RecordBatch,
        from: ReadFrom,
    ) -> Result<RowsAtEpoch> {
        self.get_named(self.catalog.named(operator, store)?, call, keys, from)
    }

    /// As [`StateReader::get`], but a key of which several partitions have a row gives all of them.
    ///
    /// # Errors
    /// As [`StateReader::get`].
    pub fn get_every_row(
        &self,
        (operator, store): (&str, &str),
        call: &ReadCall,
        keys: &RecordBatch,
        from: ReadFrom,
    ) -> Result<RowsAtEpoch> {
        let known = self.catalog.named(operator, store)?;
        self.get_rows(known, call, (keys, SameKey::EveryRow), from)
    }

    /// As [`StateReader::get`], for a table that [`StateReader::table`] has found.
    ///
    /// # Errors
    /// As [`StateReader::get`].
    pub fn get_named(
        &self,
        known: NamedTable,
        call: &ReadCall,
        keys: &RecordBatch,
        from: ReadFrom,
    ) -> Result<RowsAtEpoch> {
        self.get_rows(known, call, (keys, SameKey::Refused), from)
    }

    fn get_rows(
        &self,
        known: NamedTable,
        call: &ReadCall,
        keys: (&RecordBatch, SameKey),
        from: ReadFrom,
    ) -> Result<RowsAtEpoch> {
        let mut found = self.get_known(&known, call, keys, from);
        if found
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Restore)
        {
            // A rewind may have removed objects since the reader last checked for rewinds.
            self.epochs.look_again();
            found = self.get_known(&known, call, keys, from);
        }
        let fits = found.as_ref().map_or_else(
            |error| {
                !matches!(
                    error.kind(),
                    ErrorKind::Serialization | ErrorKind::InvalidValue | ErrorKind::InvalidType
                )
            },
            |_| true,
        );
        if found.is_err() {
            // If another root is under the path now, its host refuses the read.
            self.epochs.check_same_root()?;
        }
        let may_be_old = self.catalog.may_be_old(&known);
        if fits && !may_be_old {
            return found;
        }
        // The query may have been started again since the table was last read.
        let renewed = self.catalog.renewed(&known)?;
        if !may_be_old && renewed.table.schema() == known.table.schema() {
            return found;
        }
        self.get_known(&renewed, call, keys, from)
    }

    fn get_known(
        &self,
        known: &NamedTable,
        call: &ReadCall,
        (keys, same_key): (&RecordBatch, SameKey),
        from: ReadFrom,
    ) -> Result<RowsAtEpoch> {
        let asked = self.routing.asked(&known.table, keys)?;
        if let [(partition, _)] = asked.as_slice()
            && known.table.key().routes()
            && let Some(found) = self.get_of_one(known, *partition, call, keys, from)?
        {
            return Ok(found);
        }
        let call = known.explicit(call, ReadRows::Get);
        let mut partitions: Vec<PartitionId> =
            asked.iter().map(|(partition, _)| *partition).collect();
        partitions.dedup();
        let lanes = if keys.num_rows() < MANY_KEYS {
            1
        } else {
            LANES
        };
        for _ in 0..ATTEMPTS {
            let mut source = self.source(known, (&partitions, lanes), from)?;
            match self.get_from(&mut source, known, &asked, &call, (keys, same_key)) {
                Ok(found) => {
                    source.release();
                    return Ok(found);
                }
                Err(ReadFailure::Failed(error)) => return Err(error),
                // A host has ended during the read. All rows are read again, so that they are of
                // one epoch.
                Err(ReadFailure::Elsewhere(why)) => log::debug!("a reader reads again: {why}"),
            }
        }
        let text = format!("state hosts have ended {ATTEMPTS} times during the read: read again");
        Err(Error::new(ErrorKind::InvalidState, text).path(self.root.path()))
    }

    /// Reads keys of one partition from its host, with one request if they fit; none if the host
    /// cannot answer.
    fn get_of_one(
        &self,
        known: &NamedTable,
        partition: PartitionId,
        call: &ReadCall,
        keys: &RecordBatch,
        from: ReadFrom,
    ) -> Result<Option<RowsAtEpoch>> {
        if from.offline == Offline::Only || from.exactly.is_some() {
            return Ok(None);
        }
        if let Some(bound) = from.at_least {
            self.epochs.newest_at_least(bound, from.timeout)?;
        }
        self.note_commit();
        let isolation_level = from.isolation_level(known.entry.isolation_level)?;
        let target = self
            .hosts
            .target(&known.operator, partition, isolation_level);
        let stored = self.stored_of_one(known, &target, call, keys)?;
        let found = match stored {
            Some(found) => Some(found),
            None => {
                let call = known.explicit(call, ReadRows::Get);
                self.rows_of_one(known, &target, &call, keys)?
            }
        };
        let Some((epoch, rows)) = found else {
            return Ok(None);
        };
        if from.at_least.is_some_and(|bound| epoch < bound) || !self.is_newest_seen(epoch)? {
            return Ok(None);
        }
        let state = AnswerState {
            epoch,
            isolation_level,
            behind: 0,
        };
        let found = KeyAnswers::in_order(rows, keys.num_rows())?;
        let schema = known.table.schema_of_get(call)?;
        found.assembled(schema, state).map(Some)
    }

    /// Reads a few keys as they are stored; none if the host cannot answer, or if the keys or the
    /// rows are too large for this.
    fn stored_of_one(
        &self,
        known: &NamedTable,
        target: &ReadTarget,
        call: &ReadCall,
        batch: &RecordBatch,
    ) -> Result<Option<(Epoch, Vec<RecordBatch>)>> {
        let table = &known.table;
        if batch.num_rows() > FEW_KEYS || !table.decodes_alone() {
            return Ok(None);
        }
        let keys = table.stored_keys(call, batch)?;
        let read = stored_read::encode(&StoredRead {
            target: target.clone(),
            store: table.store().to_owned(),
            keys: &keys,
        })?;
        if read.len() > USUAL_REQUEST {
            return Ok(None);
        }
        let (operator, partition) = (&known.operator, target.partition);
        let found = self
            .hosts
            .newest(operator, partition, |connection| connection.stored(&read))?;
        let Some((epoch, Some(rows))) = found else {
            return Ok(None);
        };
        match table.decode_stored(call, (batch, &keys), &rows) {
            Ok(batches) => Ok(Some((epoch, batches))),
            Err(error) if error.kind() == ErrorKind::Serialization => {
                // The query was started with other columns since the table was last read. The host
                // decodes the rows of this read, and the reader those of the next one.
                log::debug!("operator {operator}: the host decodes the rows: {error}");
                self.catalog.read(operator)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads keys of one partition that its host decodes; none if it cannot answer.
    fn rows_of_one(
        &self,
        known: &NamedTable,
        target: &ReadTarget,
        call: &ReadCall,
        keys: &RecordBatch,
    ) -> Result<Option<(Epoch, Vec<RecordBatch>)>> {
        self.hosts
            .newest(&known.operator, target.partition, |connection| {
                let mut rows = Vec::new();
                let at = connection.newest(target, known.read(call), keys, &mut |batch| {
                    rows.push(batch);
                    Ok(())
                })?;
                Ok(at.map(|at| (at, rows)))
            })
    }

    fn get_from(
        &self,
        source: &mut ReadSource,
        known: &NamedTable,
        asked: &[(PartitionId, Vec<u64>)],
        call: &ReadCall,
        (keys, same_key): (&RecordBatch, SameKey),
    ) -> std::result::Result<RowsAtEpoch, ReadFailure> {
        let partitions: Vec<PartitionId> = asked.iter().map(|(partition, _)| *partition).collect();
        let keys_of = |number: usize| {
            take_record_batch(keys, &UInt64Array::from(asked[number].1.clone()))
                .map_err(|error| not_assembled(&error))
        };
        let found = self.read_each(source, known, &partitions, call, &keys_of)?;
        let mut answers = KeyAnswers::of(keys.num_rows(), same_key);
        for ((_, rows), found) in asked.iter().zip(found) {
            answers.add(rows, found).map_err(|error| {
                let name = format!("{}.{}", known.operator, known.table.store());
                ReadFailure::Failed(error.store(&name).path(self.root.path()))
            })?;
        }
        let schema = known.table.schema_of_get(call);
        let found = schema.and_then(|schema| answers.assembled(schema, source.state));
        found.map_err(ReadFailure::Failed)
    }
}
