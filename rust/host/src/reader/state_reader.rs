//! A reader of a root's state.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{RecordBatch, UInt64Array};
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::take_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use super::epochs::FinalEpochs;
use super::host_connection::ReadFailure;
use super::live::{LiveHosts, PinnedViews};
use super::read_from::{Offline, ReadFrom, RowsAtEpoch};
use super::replica::{ReplicaSource, ReplicaView};
use super::replicas::{Replicas, SharedReplica};
use super::routing::Routing;
use super::row_stream::RowStream;
use super::table_catalog::{NamedTable, TableCatalog, TableDescription};
use crate::protocol::{Epoch, PartitionId};
use crate::root::{Root, StorageOptions};
use crate::tables::{EmitRows, ReadCall, ReadRows};

/// How long a reader without copies waits before it asks the hosts again.
const RETRY: Duration = Duration::from_millis(50);

/// Reads the tables of a root, from any process.
///
/// It never writes to the root. All reads of one call are of one epoch.
pub struct StateReader {
    root: Arc<Root>,
    query_id: String,
    routing: Routing,
    epochs: Arc<FinalEpochs>,
    catalog: TableCatalog,
    replicas: Replicas,
    hosts: Arc<LiveHosts>,
}

/// Where the rows of a read come from: all of one epoch.
enum ReadSource {
    Hosts(PinnedViews),
    Copies(Epoch),
}

impl StateReader {
    /// Connects to a root that holds state.
    ///
    /// `cache_dir`: where copies of partitions are; by default the temporary folder.
    ///
    /// # Errors
    /// `StateMismatch` if the root holds no state, `FormatVersion` for another format, `Io` if it
    /// cannot be read.
    pub fn connect(
        root: &str,
        options: &StorageOptions,
        cache_dir: Option<&Path>,
    ) -> Result<Arc<Self>> {
        let root = Arc::new(Root::existing(root, options)?);
        let (query_id, partitions) = root.identity.query()?;
        let epochs = Arc::new(FinalEpochs::new(Arc::clone(&root), partitions));
        let hosts = LiveHosts::new(Arc::clone(&root), root.identity.id()?, Arc::clone(&epochs));
        Ok(Arc::new(Self {
            epochs,
            hosts: Arc::new(hosts),
            catalog: TableCatalog::new(Arc::clone(&root)),
            replicas: Replicas::new(cache_dir)?,
            root,
            query_id,
            routing: Routing { partitions },
        }))
    }

    /// How many partitions the state has.
    pub fn partitions(&self) -> u32 {
        self.routing.partitions
    }

    /// Describes all tables, by operator.
    ///
    /// # Errors
    /// `Restore` for an operator that cannot be read, `Io` if the disk fails.
    pub fn tables(&self) -> Result<Vec<TableDescription>> {
        self.catalog.describe()
    }

    /// Returns the newest final epoch; none before the first.
    ///
    /// # Errors
    /// As [`StateReader::tables`].
    pub fn epoch(&self) -> Result<Option<Epoch>> {
        self.epochs.newest()
    }

    /// Reads one row for each row of `keys`, in their order: nulls where there is none.
    ///
    /// # Errors
    /// `StateMismatch` or `InvalidValue` for an operator, a table or a column that does not exist;
    /// `InvalidType` for keys of other types than the table's; `NotUpToBound` if the epoch is not
    /// reached in time; `Restore` if the root does not hold the epoch's state.
    pub fn get(
        &self,
        (operator, store): (&str, &str),
        call: &ReadCall,
        keys: &RecordBatch,
        from: ReadFrom,
    ) -> Result<RowsAtEpoch> {
        let call = ReadCall {
            rows: ReadRows::Get,
            ..call.clone()
        };
        let known = self.catalog.named(operator, store)?;
        let asked = self.routing.asked(&known.table, keys)?;
        if let [(partition, _)] = asked.as_slice()
            && known.table.key().routes()
            && let Some(found) = self.get_of_one(&known, *partition, &call, keys, from)?
        {
            return Ok(found);
        }
        let partitions: Vec<PartitionId> = asked.iter().map(|(partition, _)| *partition).collect();
        let mut source = self.source(&known, &partitions, from)?;
        loop {
            match self.get_from(&mut source, &known, &asked, &call, keys) {
                Ok(found) => {
                    if let ReadSource::Hosts(views) = source {
                        views.release();
                    }
                    return Ok(found);
                }
                Err(ReadFailure::Failed(error)) => return Err(error),
                // A host has ended during the read. All rows are read again, of one epoch.
                Err(ReadFailure::Elsewhere(why)) => {
                    log::debug!("a reader reads again: {why}");
                    source = self.source(&known, &partitions, from)?;
                }
            }
        }
    }

    /// Scans rows of all partitions, one partition after the other: within one, rows come in the
    /// order of the keys, or in the order of time in a window or session table.
    ///
    /// `batch`: the bounds that the call names. `only`: one partition. The epoch stays the same
    /// until the stream is dropped.
    ///
    /// # Errors
    /// As [`StateReader::get`].
    pub fn scan(
        self: &Arc<Self>,
        (operator, store): (&str, &str),
        call: ReadCall,
        batch: RecordBatch,
        from: ReadFrom,
        only: Option<PartitionId>,
    ) -> Result<RowStream> {
        let known = self.catalog.named(operator, store)?;
        let partitions: Vec<PartitionId> = match only {
            Some(partition) => vec![partition],
            None => self.routing.of_bounds(&known.table, &call, &batch)?,
        };
        let mut source = self.source(&known, &partitions, from)?;
        // Read after the epoch: it has all columns that the epoch's rows have.
        let known = self.catalog.renewed(known)?;
        let schema = known.table.schema_of(&call)?;
        let (reader, epoch) = (Arc::clone(self), source.epoch());
        RowStream::start(schema, epoch, move |emit| {
            let mut left = call.limit;
            for partition in partitions {
                if left == Some(0) {
                    break;
                }
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
                let read = reader.read(&mut source, &known, partition, &call, &batch, &mut counted);
                read.map_err(|failure| match failure {
                    ReadFailure::Failed(error) => error,
                    ReadFailure::Elsewhere(why) => Error::new(
                        ErrorKind::InvalidState,
                        format!("the state host of a scan has ended ({why}): scan again"),
                    ),
                })?;
            }
            if let ReadSource::Hosts(views) = source {
                views.release();
            }
            Ok(())
        })
    }

    /// Reads keys of one partition from its host with one request; none if the host cannot answer.
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
        let named = (known.table.store(), call);
        let found = self.hosts.newest(&known.operator, partition, named, keys)?;
        Ok(found.and_then(|(epoch, rows)| {
            let rows = rows.into_iter().next()?;
            from.at_least
                .is_none_or(|bound| bound <= epoch)
                .then_some(RowsAtEpoch { rows, epoch })
        }))
    }

    fn get_from(
        &self,
        source: &mut ReadSource,
        known: &NamedTable,
        asked: &[(PartitionId, Vec<u64>)],
        call: &ReadCall,
        keys: &RecordBatch,
    ) -> std::result::Result<RowsAtEpoch, ReadFailure> {
        let epoch = source.epoch();
        let mut batches: Vec<RecordBatch> = Vec::new();
        // Where each row's answer is: which batch, which row of it.
        let mut answers: Vec<Option<(usize, usize)>> = vec![None; keys.num_rows()];
        for (partition, rows) in asked {
            let of_partition = take_record_batch(keys, &UInt64Array::from(rows.clone()))
                .map_err(|error| ReadFailure::Failed(not_assembled(&error)))?;
            let mut found = Vec::new();
            self.read(
                source,
                known,
                *partition,
                call,
                &of_partition,
                &mut |batch| {
                    found.push(batch);
                    Ok(())
                },
            )?;
            for batch in found {
                for (n, row) in rows.iter().enumerate().take(batch.num_rows()) {
                    let answer = &mut answers[usize::try_from(*row).unwrap_or(usize::MAX)];
                    // A table whose keys do not choose the partition: another one may have it.
                    if answer.is_none() || known.table.is_found(&batch, n) {
                        *answer = Some((batches.len(), n));
                    }
                }
                batches.push(batch);
            }
        }
        let rows = if batches.is_empty() {
            RecordBatch::new_empty(known.table.schema_of(call)?)
        } else {
            let answers: Vec<(usize, usize)> = answers.into_iter().flatten().collect();
            let batches: Vec<&RecordBatch> = batches.iter().collect();
            interleave_record_batch(&batches, &answers)
                .map_err(|error| ReadFailure::Failed(not_assembled(&error)))?
        };
        Ok(RowsAtEpoch { rows, epoch })
    }

    /// Reads rows of one partition.
    fn read(
        &self,
        source: &mut ReadSource,
        known: &NamedTable,
        partition: PartitionId,
        call: &ReadCall,
        batch: &RecordBatch,
        emit: &mut EmitRows<'_>,
    ) -> std::result::Result<(), ReadFailure> {
        match source {
            ReadSource::Hosts(views) => {
                views.rows(partition, (known.table.store(), call), batch, emit)
            }
            ReadSource::Copies(epoch) => {
                let (mut view, _replica) = self
                    .copy(known, partition, *epoch)
                    .map_err(ReadFailure::Failed)?;
                known
                    .table
                    .read(&view.db, &mut view.transaction, call, batch, emit)
                    .map_err(ReadFailure::Failed)
            }
        }
    }

    /// Finds where the rows of partitions are read, and at which epoch.
    fn source(
        &self,
        known: &NamedTable,
        partitions: &[PartitionId],
        from: ReadFrom,
    ) -> Result<ReadSource> {
        let started = Instant::now();
        let least = match (from.exactly, from.at_least) {
            (Some(epoch), _) => epoch,
            (None, Some(least)) => self.epochs.newest_at_least(least, from.timeout)?,
            (None, None) => Epoch(0),
        };
        loop {
            if from.offline != Offline::Only
                && let Some(views) = self.hosts.pin(&known.operator, partitions)?
            {
                let fits = match from.exactly {
                    Some(epoch) => views.epoch() == epoch,
                    None => views.epoch() >= least,
                };
                if fits {
                    return Ok(ReadSource::Hosts(views));
                }
            }
            if from.offline != Offline::Never {
                break;
            }
            if started.elapsed() >= from.timeout {
                let text = format!(
                    "no state host of operator {} answers within {} s: is the query running? \
                     offline=\"auto\" reads without it",
                    known.operator,
                    from.timeout.as_secs_f64()
                );
                return Err(Error::new(ErrorKind::NotUpToBound, text).path(self.root.path()));
            }
            std::thread::sleep(RETRY);
        }
        if let Some(epoch) = from.exactly {
            self.epochs.check_final(epoch)?;
            return Ok(ReadSource::Copies(epoch));
        }
        let newest = self.epochs.newest()?.ok_or_else(|| {
            let text = "no epoch is final yet: the query has not committed its first micro-batch";
            Error::new(ErrorKind::NotUpToBound, text).path(self.root.path())
        })?;
        Ok(ReadSource::Copies(newest.max(least)))
    }

    fn copy(
        &self,
        known: &NamedTable,
        partition: PartitionId,
        epoch: Epoch,
    ) -> Result<(ReplicaView, SharedReplica)> {
        let source = ReplicaSource {
            root: Arc::clone(&self.root),
            query_id: self.query_id.clone(),
            operator: known.operator.clone(),
            partition,
            first_epoch: known.entry.first_epoch,
            stores: known.entry.stores.clone(),
        };
        self.replicas
            .view(source, epoch, &|epoch| self.epochs.decision(epoch))
    }
}

impl ReadSource {
    fn epoch(&self) -> Epoch {
        match self {
            Self::Hosts(views) => views.epoch(),
            Self::Copies(epoch) => *epoch,
        }
    }
}

fn not_assembled(error: &arrow_schema::ArrowError) -> Error {
    Error::new(
        ErrorKind::Serialization,
        format!("the rows of a read cannot be assembled: {error}"),
    )
}
