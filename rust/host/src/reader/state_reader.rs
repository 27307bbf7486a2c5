//! A reader of a root's state.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};

use super::copies::{CacheSettings, Replicas};
use super::epochs::FinalEpochs;
use super::host_connection::ReadFailure;
use super::live::{BatchOf, LiveHosts};
use super::read_from::{Offline, ReadFrom};
use super::read_source::ReadSource;
use super::routing::Routing;
use super::row_stream::RowStream;
use super::table_catalog::{NamedTable, TableCatalog, TableDescription};
use crate::net::metrics::HostMetrics;
use crate::protocol::{Epoch, OperatorName, PartitionId};
use crate::root::{Root, StorageOptions};
use crate::tables::{EmitRows, ReadCall};

/// Reads the tables of a root, from any process.
///
/// It never writes to the root. All reads of one call are of one epoch.
pub struct StateReader {
    pub(super) root: Arc<Root>,
    pub(super) query_id: String,
    pub(super) routing: Routing,
    pub(super) epochs: Arc<FinalEpochs>,
    pub(super) catalog: TableCatalog,
    pub(super) replicas: Replicas,
    pub(super) hosts: Arc<LiveHosts>,
    /// The newest epoch that was read.
    seen: AtomicI64,
}

impl StateReader {
    /// Connects to a root that holds state.
    ///
    /// `cache`: where copies of partitions are, and how much of the disk they may take.
    ///
    /// # Errors
    /// `StateMismatch` if the root holds no state, `FormatVersion` for another format, `Restore` if
    /// `meta.json` cannot be read, `Io` if the disk fails.
    pub fn connect(
        root: &str,
        options: &StorageOptions,
        cache: CacheSettings,
    ) -> Result<Arc<Self>> {
        let root = Arc::new(Root::existing(root, options)?);
        let (query_id, partitions) = root.identity.query()?;
        let id = root.identity.id()?;
        let epochs = Arc::new(FinalEpochs::new(Arc::clone(&root), id, partitions));
        let hosts = LiveHosts::new(Arc::clone(&root), Arc::clone(&epochs));
        Ok(Arc::new(Self {
            hosts: Arc::new(hosts),
            seen: AtomicI64::new(i64::MIN),
            catalog: TableCatalog::new(Arc::clone(&root), Arc::clone(&epochs)),
            replicas: Replicas::new(cache),
            epochs,
            root,
            query_id,
            routing: Routing { partitions },
        }))
    }

    /// Whether another root was found under the path: connect again.
    pub fn is_outdated(&self) -> bool {
        self.epochs.is_outdated()
    }

    /// The random id of the root to which the reader connected.
    pub fn root_id(&self) -> &str {
        self.epochs.root_id()
    }

    /// How many partitions the state has.
    pub fn partitions(&self) -> u32 {
        self.routing.partitions
    }

    /// Describes all tables, by operator.
    ///
    /// # Errors
    /// `Restore` for an operator that cannot be read, `Io` if the disk fails.
    pub fn tables(&self) -> Result<Vec<Arc<TableDescription>>> {
        self.catalog.describe()
    }

    /// Returns a table as it was last read: a new start of the query may have changed it since.
    ///
    /// # Errors
    /// `StateMismatch` or `InvalidValue` if there is no such operator or table; as
    /// [`StateReader::tables`].
    pub fn table(&self, (operator, store): (&str, &str)) -> Result<NamedTable> {
        self.catalog.named(operator, store)
    }

    /// As [`StateReader::table`], from memory only: it reads nothing and does not block. None if
    /// the operator's tables were not read yet, or if there is no such table.
    pub fn known_table(&self, (operator, store): (&str, &str)) -> Option<NamedTable> {
        self.catalog.named_in_memory(operator, store)
    }

    /// Describes the tables of an operator as they were last read: a new start of the query may
    /// have changed them since.
    ///
    /// # Errors
    /// `InvalidValue` or `StateMismatch` if there is no such operator; as
    /// [`StateReader::tables`].
    pub fn tables_of(&self, operator: &str) -> Result<Vec<Arc<TableDescription>>> {
        let operator = OperatorName::new(operator)?;
        Ok(self.catalog.known(&operator)?.descriptions.clone())
    }

    /// As [`StateReader::tables_of`], from memory only: it reads nothing and does not block. None
    /// if the operator's tables were not read yet.
    pub fn known_tables_of(&self, operator: &str) -> Option<Vec<Arc<TableDescription>>> {
        let operator = OperatorName::new(operator).ok()?;
        Some(self.catalog.in_memory(&operator)?.descriptions.clone())
    }

    /// Returns the figures of each state host that serves the root and answers.
    ///
    /// # Errors
    /// `Io` or `Restore` if the addresses of the hosts cannot be read.
    pub fn metrics(&self) -> Result<Vec<HostMetrics>> {
        self.hosts.metrics()
    }

    /// Sends bytes to the host of a partition, which returns them. None if no host answers.
    ///
    /// No read can be faster than this.
    ///
    /// # Errors
    /// `InvalidValue` for an invalid name of an operator, or for more bytes than a request may
    /// have; the host's.
    pub fn echo(
        &self,
        operator: &str,
        partition: PartitionId,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let operator = OperatorName::new(operator)?;
        self.hosts.ask(&operator, partition, |connection| {
            connection.echo(bytes).map(Some)
        })
    }

    /// The memory of this reader's staged changes of epochs that are not final, in bytes. It is
    /// freed some seconds after the last read.
    pub fn staged_bytes(&self) -> usize {
        self.replicas.staging().held()
    }

    /// Returns the newest final epoch; none before the first.
    ///
    /// # Errors
    /// `StateMismatch` if the root was deleted, or deleted and made again; as
    /// [`StateReader::tables`].
    pub fn epoch(&self) -> Result<Option<Epoch>> {
        self.epochs.newest()
    }

    /// As [`StateReader::epoch`], but an error before the first final epoch.
    ///
    /// # Errors
    /// `NotUpToBound` if no epoch is final; as [`StateReader::epoch`].
    pub fn final_epoch(&self) -> Result<Epoch> {
        self.epochs.newest_final()
    }

    /// Returns the partition of each row of keys; none if a table's keys do not choose it.
    ///
    /// # Errors
    /// As `StateReader::get`.
    pub fn places(
        &self,
        (operator, store): (&str, &str),
        keys: &RecordBatch,
    ) -> Result<Option<Vec<PartitionId>>> {
        let known = self.catalog.named(operator, store)?;
        self.routing.places(&known.table, keys)
    }

    /// Scans rows of all partitions, one partition after the other: within one, rows come in the
    /// order of the keys, or in the order of time in a window or session table.
    ///
    /// `batch` has the bounds that the call names. `partition` limits the scan to one partition.
    /// The epoch stays the same until the stream is dropped.
    ///
    /// # Errors
    /// As `StateReader::get`; `InvalidValue` if there is no such partition.
    pub fn scan(
        self: &Arc<Self>,
        (operator, store): (&str, &str),
        call: ReadCall,
        batch: RecordBatch,
        partition: Option<PartitionId>,
        from: ReadFrom,
    ) -> Result<RowStream> {
        let partitions_of = |known: &NamedTable| match partition {
            Some(_) => self.routing.chosen(partition),
            None => self.routing.of_bounds(&known.table, &call, &batch),
        };
        let mut known = self.catalog.named(operator, store)?;
        let mut partitions = partitions_of(&known)?;
        if from.offline != Offline::Never {
            // Copies are made while the rows are read, so an error could not be repeated.
            self.epochs.look_again();
        }
        let mut source = loop {
            let source = self.source(&known, (&partitions, 1), from);
            if source.is_err() {
                self.epochs.check_same_root()?;
            }
            let source = source?;
            // The table is read after the epoch is known, so it has all columns of the rows.
            known = self.catalog.renewed(&known)?;
            // After a rewind, the key may have more columns, so its rows are in other partitions.
            let now = partitions_of(&known)?;
            if now == partitions {
                break source;
            }
            partitions = now;
        };
        let call = known.explicit(&call, call.rows);
        let schema = known.table.schema_of(&call)?;
        let reader = Arc::clone(self);
        RowStream::start(schema, source.state, move |queue, emit| {
            let mut left = call.limit;
            for partition in partitions {
                if left == Some(0) {
                    break;
                }
                // A partition without rows sends no batch, and its copy may take long.
                queue.check_open()?;
                let call = ReadCall {
                    limit: left,
                    ..call.clone()
                };
                let mut counted = |batch: RecordBatch| {
                    left = left.map(|left| left.saturating_sub(batch.num_rows() as u64));
                    if batch.num_rows() > 0 {
                        emit(batch)?;
                    }
                    Ok(())
                };
                let may_copy = from.offline != Offline::Never;
                reader.read_whole(
                    (&mut source, may_copy),
                    &known,
                    partition,
                    (&call, &batch),
                    &mut counted,
                )?;
            }
            source.release();
            Ok(())
        })
    }

    /// Finds out which epoch hosts must have, at most once a second. Called before hosts are asked.
    pub(super) fn note_commit(&self) {
        match self.epochs.earlier_commit() {
            Ok(Some(commit)) => {
                self.seen.fetch_max(commit.0, Ordering::Relaxed);
            }
            Ok(None) => {}
            // The hosts may still answer.
            Err(error) => log::debug!("Spark's commit log cannot be read: {error}"),
        }
    }

    /// Whether an answer of this epoch may be used: this reader has found no newer final epoch. So
    /// a host that lags behind is not used, such as one whose partition another host serves now.
    /// After a rewind, the newest final epoch is accepted, although it is older.
    pub(super) fn is_newest_seen(&self, epoch: Epoch) -> Result<bool> {
        let seen = self.seen.fetch_max(epoch.0, Ordering::Relaxed);
        if epoch.0 >= seen {
            return Ok(true);
        }
        let is_newest = self.epochs.newest()?.is_none_or(|newest| newest <= epoch);
        if is_newest {
            // This has no effect if another read has found a newer epoch meanwhile.
            let (relaxed, now) = (Ordering::Relaxed, epoch.0);
            let _ = self.seen.compare_exchange(seen, now, relaxed, relaxed);
        }
        Ok(is_newest)
    }

    /// Reads rows of one partition. If its host ends meanwhile, the rest comes from a copy at the
    /// same epoch: it has the same rows in the same order. The read fails instead if the reader may
    /// not use copies, or if rows were given that may contain staged changes.
    fn read_whole(
        &self,
        (source, may_copy): (&mut ReadSource, bool),
        known: &NamedTable,
        partition: PartitionId,
        (call, batch): (&ReadCall, &RecordBatch),
        emit: &mut EmitRows<'_>,
    ) -> Result<()> {
        let mut given = 0;
        let mut counted = |rows: RecordBatch| {
            given += rows.num_rows();
            emit(rows)
        };
        let why = match self.read(source, known, partition, call, batch, &mut counted) {
            Ok(()) => return Ok(()),
            Err(ReadFailure::Failed(error)) => return Err(error),
            Err(ReadFailure::Elsewhere(why)) => why,
        };
        // The staged changes of the next epoch may have changed since.
        let is_same = given == 0 || source.state.isolation_level.is_committed();
        if !may_copy || !is_same {
            let text = format!("the state host of a scan has ended ({why}): scan again");
            return Err(Error::new(ErrorKind::InvalidState, text).path(self.root.path()));
        }
        log::debug!("a scan goes on with a copy of partition {partition}: {why}");
        let mut left = given;
        self.read_copy(source, known, partition, call, batch, &mut |rows| {
            let skipped = left.min(rows.num_rows());
            left -= skipped;
            emit(rows.slice(skipped, rows.num_rows() - skipped))
        })
    }

    /// Reads rows of one partition.
    pub(super) fn read(
        &self,
        source: &mut ReadSource,
        known: &NamedTable,
        partition: PartitionId,
        call: &ReadCall,
        batch: &RecordBatch,
        emit: &mut EmitRows<'_>,
    ) -> std::result::Result<(), ReadFailure> {
        if let Some(views) = &mut source.views {
            return views.rows(partition, known.read(call), batch, emit);
        }
        self.read_copy(source, known, partition, call, batch, emit)
            .map_err(ReadFailure::Failed)
    }

    /// Reads all rows of several reads, each of one of these partitions, and returns them in this
    /// order.
    pub(super) fn read_each(
        &self,
        source: &mut ReadSource,
        known: &NamedTable,
        partitions: &[PartitionId],
        call: &ReadCall,
        batch: &BatchOf<'_>,
    ) -> std::result::Result<Vec<Vec<RecordBatch>>, ReadFailure> {
        if let Some(views) = &mut source.views {
            return views.rows_of_each(partitions, known.read(call), batch);
        }
        let read = |(number, partition): (usize, &PartitionId)| {
            let mut rows = Vec::new();
            let batch = batch(number)?;
            self.read_copy(source, known, *partition, call, &batch, &mut |batch| {
                rows.push(batch);
                Ok(())
            })?;
            Ok(rows)
        };
        let all: Result<_> = partitions.iter().enumerate().map(read).collect();
        all.map_err(ReadFailure::Failed)
    }
}
