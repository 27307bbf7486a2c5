//! Views of several partitions in their hosts, all of one epoch.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use holdfast_core::{Error, Result};

use super::LiveHosts;
use super::at_once::at_once;
use crate::net::read::ReadEpoch;
use crate::protocol::{
    Epoch, EpochDecision, IsolationLevel, OperatorName, PartitionDecision, PartitionId,
};
use crate::reader::host_connection::{HostConnection, ReadFailure, TableCall};
use crate::root::ReaderAddress;
use crate::tables::EmitRows;

/// How many times partitions are pinned while their epochs differ.
const PINS: usize = 4;
/// After this time, a read of one host sends a message to the others, so that their views stay
/// open.
const TOUCHED: Duration = Duration::from_secs(20);

/// Views of several partitions, all of one epoch.
pub struct PinnedViews {
    live: Arc<LiveHosts>,
    epoch: Epoch,
    hosts: HashMap<Lane, PinnedHost>,
}

/// A connection to a host: the host's token, and which of the connections to it.
type Lane = (String, usize);

/// A connection to a host, with the views that it holds.
struct PinnedHost {
    connection: HostConnection,
    views: HashMap<PartitionId, PinnedView>,
}

struct PinnedView {
    view: u64,
    at: ReadEpoch,
}

/// The partitions that a host is to pin.
struct PinJob {
    address: Arc<ReaderAddress>,
    /// None if the host has pinned nothing yet.
    host: Option<PinnedHost>,
    partitions: Vec<PartitionId>,
}

/// The reads that a host is to answer.
struct RowsJob {
    lane: Lane,
    host: PinnedHost,
    /// The view and the number of each read.
    reads: Vec<(u64, usize)>,
}

/// Returns the batch of the read with a number.
pub type BatchOf<'a> = dyn Fn(usize) -> Result<RecordBatch> + Sync + 'a;

impl LiveHosts {
    /// Pins views of partitions, all of one epoch; none if a host cannot answer, or if the epochs
    /// still differ after [`PINS`] attempts.
    ///
    /// Hosts are asked at the same time, each on up to `lanes` connections, which share its
    /// partitions.
    ///
    /// # Errors
    /// The hosts'.
    pub fn pin(
        self: &Arc<Self>,
        operator: &OperatorName,
        (partitions, lanes): (&[PartitionId], usize),
        level: IsolationLevel,
    ) -> Result<Option<PinnedViews>> {
        match self.pin_on(operator, (partitions, lanes), level) {
            // A host that refuses a second connection may still have an idle one of this reader.
            Err(error) if lanes > 1 => {
                log::debug!("a read has one connection to each host: {error}");
                self.pin_on(operator, (partitions, 1), level)
            }
            pinned => pinned,
        }
    }

    fn pin_on(
        self: &Arc<Self>,
        operator: &OperatorName,
        (partitions, lanes): (&[PartitionId], usize),
        level: IsolationLevel,
    ) -> Result<Option<PinnedViews>> {
        let mut pinned = PinnedViews {
            live: Arc::clone(self),
            epoch: Epoch(0),
            hosts: HashMap::new(),
        };
        for _ in 0..PINS {
            if !self.pin_missing(&mut pinned, operator, (partitions, lanes), level)? {
                return Ok(None);
            }
            if partitions.iter().all(|one| pinned.find(*one).is_some()) {
                return Ok(Some(pinned));
            }
        }
        Ok(None)
    }

    /// Pins the partitions that have no view of the newest epoch; false if a host cannot answer.
    fn pin_missing(
        &self,
        pinned: &mut PinnedViews,
        operator: &OperatorName,
        (partitions, lanes): (&[PartitionId], usize),
        level: IsolationLevel,
    ) -> Result<bool> {
        self.find_addresses(operator, partitions);
        let mut jobs: BTreeMap<Lane, PinJob> = BTreeMap::new();
        let mut of_host: HashMap<String, usize> = HashMap::new();
        for partition in partitions.iter().copied() {
            let Some(address) = self.address(operator, partition) else {
                return Ok(false);
            };
            let count = of_host.entry(address.token.clone()).or_default();
            let lane = (address.token.clone(), *count % lanes.max(1));
            *count += 1;
            if pinned.find(partition).is_some() {
                continue;
            }
            let job = jobs.entry(lane.clone()).or_insert_with(|| PinJob {
                host: pinned.hosts.remove(&lane),
                address,
                partitions: Vec::new(),
            });
            job.partitions.push(partition);
        }
        let answers = at_once(jobs.into_iter().collect(), |(lane, job)| {
            let host = self.pin_in_host(job, operator, level)?;
            Ok::<_, Error>(host.map(|host| (lane, host)))
        });
        for answer in answers {
            let Some((lane, host)) = answer? else {
                return Ok(false);
            };
            let newest = host.views.values().map(|view| view.at.epoch).max();
            pinned.epoch = newest.map_or(pinned.epoch, |newest| newest.max(pinned.epoch));
            pinned.hosts.insert(lane, host);
        }
        Ok(true)
    }

    /// Pins partitions of one host, one after the other; none if it cannot answer.
    fn pin_in_host(
        &self,
        job: PinJob,
        operator: &OperatorName,
        level: IsolationLevel,
    ) -> Result<Option<PinnedHost>> {
        let (mut connection, mut views) = match job.host {
            Some(host) => (Some(host.connection), host.views),
            None => (None, HashMap::new()),
        };
        for partition in job.partitions {
            let target = self.target(operator, partition, level);
            let old = views.remove(&partition);
            let pin = |connection: &mut HostConnection| {
                if let Some(PinnedView { view, .. }) = old {
                    connection.unpin(view)?;
                }
                connection.pin(&target)
            };
            let answered = self.exchange(&job.address, connection.take(), pin)?;
            let Some((held, Some((view, at)))) = answered else {
                self.forget(operator, partition);
                return Ok(None);
            };
            connection = Some(held);
            if !self.is_decided(operator, partition, at)? {
                self.forget(operator, partition);
                return Ok(None);
            }
            views.insert(partition, PinnedView { view, at });
        }
        Ok(connection.map(|connection| PinnedHost { connection, views }))
    }
}

impl PinnedViews {
    /// The epoch of all views.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether all views are of this decision of the epoch. After a rewind the epoch may be decided
    /// again, even while partitions are being pinned.
    pub fn are_of(&self, operator: &OperatorName, decision: &EpochDecision) -> bool {
        let views = self.hosts.values().flat_map(|host| &host.views);
        let mut views = views.filter(|(_, view)| view.at.epoch == self.epoch);
        views.all(|(partition, view)| {
            let decided = decision.of(operator, *partition);
            decided.map(PartitionDecision::chain) == Some(view.at.chain)
        })
    }

    /// The connection that has a partition's view of the epoch, and the view.
    fn find(&self, partition: PartitionId) -> Option<(&Lane, u64)> {
        self.hosts.iter().find_map(|(lane, host)| {
            let view = host.views.get(&partition)?;
            (view.at.epoch == self.epoch).then_some((lane, view.view))
        })
    }

    /// Reads rows of a partition.
    ///
    /// # Errors
    /// The host's and those of `emit`; `Elsewhere` if the host ends meanwhile.
    pub fn rows(
        &mut self,
        partition: PartitionId,
        table: TableCall<'_>,
        batch: &RecordBatch,
        emit: &mut EmitRows<'_>,
    ) -> std::result::Result<(), ReadFailure> {
        let (lane, view) = self.find(partition).ok_or_else(not_pinned)?;
        let lane = lane.clone();
        let mut host = self.hosts.remove(&lane).ok_or_else(not_pinned)?;
        let mut touched = Instant::now();
        let read = host.connection.rows(view, table, batch, &mut |rows| {
            if touched.elapsed() > TOUCHED {
                touched = Instant::now();
                for other in self.hosts.values_mut() {
                    // If this fails, the next read of the host's views returns the error.
                    other.connection.touch().unwrap_or_else(|failure| {
                        log::debug!("a waiting host does not answer: {failure:?}");
                    });
                }
            }
            emit(rows)
        });
        // After a failure the host has ended, or its answer was not read to the end.
        if read.is_ok() {
            self.hosts.insert(lane, host);
        }
        read
    }

    /// Reads all rows of several reads, each of one of these partitions, and returns them in this
    /// order. Hosts are asked at the same time; each connection reads one partition after the
    /// other.
    ///
    /// # Errors
    /// The hosts' and those of `batch`; `Elsewhere` if a host ends meanwhile.
    pub fn rows_of_each(
        &mut self,
        partitions: &[PartitionId],
        table: TableCall<'_>,
        batch: &BatchOf<'_>,
    ) -> std::result::Result<Vec<Vec<RecordBatch>>, ReadFailure> {
        let mut reads: BTreeMap<Lane, Vec<(u64, usize)>> = BTreeMap::new();
        for (number, partition) in partitions.iter().enumerate() {
            let (lane, view) = self.find(*partition).ok_or_else(not_pinned)?;
            let of_lane = reads.entry(lane.clone()).or_default();
            of_lane.push((view, number));
        }
        let jobs = reads.into_iter().map(|(lane, reads)| {
            let host = self.hosts.remove(&lane).ok_or_else(not_pinned)?;
            Ok(RowsJob { lane, host, reads })
        });
        let jobs = jobs.collect::<std::result::Result<Vec<RowsJob>, ReadFailure>>()?;
        let answers = at_once(jobs, |mut job| -> std::result::Result<_, ReadFailure> {
            let mut found = Vec::with_capacity(job.reads.len());
            for (view, number) in &job.reads {
                let mut rows = Vec::new();
                let batch = batch(*number).map_err(ReadFailure::Failed)?;
                job.host
                    .connection
                    .rows(*view, table, &batch, &mut |batch| {
                        rows.push(batch);
                        Ok(())
                    })?;
                found.push((*number, rows));
            }
            Ok((job, found))
        });
        let mut all = vec![Vec::new(); partitions.len()];
        for answer in answers {
            let (RowsJob { lane, host, .. }, found) = answer?;
            self.hosts.insert(lane, host);
            for (number, rows) in found {
                all[number] = rows;
            }
        }
        Ok(all)
    }

    /// Releases the views, and keeps the connections for the next read.
    pub fn release(self) {
        for ((token, _), mut host) in self.hosts {
            let mut views = host.views.values();
            if views.all(|view| host.connection.unpin(view.view).is_ok()) {
                self.live.give_back(&token, host.connection);
            }
        }
    }
}

fn not_pinned() -> ReadFailure {
    ReadFailure::Elsewhere("the partition is not pinned".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::thread;

    use object_store::memory::InMemory;

    use super::*;
    use crate::net::frame::MAX_GREETING;
    use crate::net::message::{self, MessageKind};
    use crate::protocol::{Digest, RunNumber};
    use crate::reader::epochs::FinalEpochs;
    use crate::reader::live::tests::address;
    use crate::root::Root;

    /// A connection to a host that only accepts it.
    fn connection(folder: &Path) -> HostConnection {
        let socket = folder.join("host.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let host = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a reader");
            message::receive(&mut stream, MAX_GREETING).expect("a greeting");
            message::send(&mut stream, MessageKind::Welcome, &[]).expect("is sent");
        });
        let connection = HostConnection::connect(&address(socket, "token")).expect("accepted");
        host.join().expect("no panic");
        connection
    }

    /// A decision whose partitions have these digests.
    fn decision(operator: &OperatorName, digests: [&[u8]; 2]) -> EpochDecision {
        let partitions = digests.map(|text| PartitionDecision {
            digest: Digest::of(text),
            ..PartitionDecision::default()
        });
        EpochDecision {
            epoch: Epoch(7),
            rewind: RunNumber(0),
            run: Some(RunNumber(1)),
            offsets: Digest::ZERO,
            sources_idle_since: None,
            operators: [(operator.clone(), partitions.to_vec())].into(),
        }
    }

    #[test]
    fn views_from_before_and_after_a_rewind_are_not_read_together() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Arc::new(Root::over(Arc::new(InMemory::new()), folder.path()));
        let epochs = Arc::new(FinalEpochs::new(Arc::clone(&root), "id".to_owned(), 2));
        let operator = OperatorName::new("join").expect("a name");
        let (old, new) = (
            decision(&operator, [b"a", b"b"]),
            decision(&operator, [b"c", b"d"]),
        );
        let of = |decision: &EpochDecision, number| {
            let chain = decision.of(&operator, PartitionId(number));
            let chain = chain.expect("is decided").chain();
            let epoch = Epoch(7);
            PinnedView {
                view: 1,
                at: ReadEpoch { epoch, chain },
            }
        };
        let host = PinnedHost {
            connection: connection(folder.path()),
            views: [(PartitionId(0), of(&old, 0)), (PartitionId(1), of(&new, 1))].into(),
        };
        let mut pinned = PinnedViews {
            live: Arc::new(LiveHosts::new(root, epochs)),
            epoch: Epoch(7),
            hosts: [(("token".to_owned(), 0), host)].into(),
        };
        assert!(!pinned.are_of(&operator, &old));
        assert!(!pinned.are_of(&operator, &new));
        for host in pinned.hosts.values_mut() {
            host.views.insert(PartitionId(0), of(&new, 0));
        }
        assert!(pinned.are_of(&operator, &new));
    }
}
