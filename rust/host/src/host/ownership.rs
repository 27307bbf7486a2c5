//! Which host serves a partition, and how this host takes partitions over from hosts that serve
//! more.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use holdfast_core::Result;

use super::{CLOSES, Host};
use crate::host::open_partitions::PartitionKey;
use crate::host::others::PlannedMove;
use crate::host::request::{QueryEpoch, Request};
use crate::partition::{PartitionState, ViewRequest};
use crate::protocol::{Epoch, Owner, RunNumber, Term, needs_recount, relieves};
use crate::root::{Ownership, OwnershipRequest, Root};

impl Host {
    /// Returns the owner of a request's partition. This host claims the partition if no other
    /// recent owner can serve it.
    ///
    /// If another host owns the partition, this host closes its own database of the partition. That
    /// database would become outdated, and it locks its directory. But if the other host serves at
    /// least two partitions more, this host restores the partition and then takes it over.
    ///
    /// # Errors
    /// As `OwnerClaims::acquire`.
    pub(crate) fn own(
        self: &Arc<Self>,
        request: &Request,
        root: &Arc<Root>,
        run: RunNumber,
        query: &QueryEpoch,
    ) -> Result<Ownership> {
        let unreachable = self
            .others
            .unreachable
            .merge(root.path(), &request.unreachable);
        let ownership = root.owners.acquire(&OwnershipRequest {
            operator: &request.operator.name,
            partition: request.partition,
            run,
            host: &self.claim(request, run),
            unreachable: &unreachable,
            restored: None,
        })?;
        let key = PartitionKey::of(request, root, &query.query_id);
        let placement = &self.others.placement;
        placement.reach(root.path(), run, query.epoch);
        let owner = match &ownership {
            Ownership::Held(term) => {
                self.publish_address(root, &request.operator.name, request.partition, *term);
                placement.see(key, &self.identity.id);
                return Ok(ownership);
            }
            Ownership::Elsewhere(owner) => owner,
        };
        placement.see(key.clone(), &owner.host);
        let planned = PlannedMove {
            key,
            request: request.clone(),
            root: Arc::clone(root),
            run,
            owner: owner.clone(),
        };
        if !self.plan(planned, query.epoch) {
            self.close_moved(&PartitionKey::of(request, root, &query.query_id), owner);
        }
        Ok(ownership)
    }

    /// Returns the claim of this host.
    fn claim(&self, request: &Request, run: RunNumber) -> Owner {
        Owner {
            term: Term::first(run),
            host: self.identity.id.clone(),
            endpoint: self.identity.endpoint.clone(),
            application: request.application.clone(),
        }
    }

    /// Closes this host's database of a partition that another host owns.
    fn close_moved(&self, key: &PartitionKey, owner: &Owner) {
        if let Some(partition) = self.partitions.remove(key) {
            log::info!("{partition}: closed, it is owned by {owner:?} now");
            // If a session still restores the partition, the database closes with that session.
            partition.close_until(Instant::now() + CLOSES);
        }
    }

    /// Plans to take a partition over, if its owner serves at least two partitions more and workers
    /// of other executors can reach this host; returns whether this host takes it over.
    fn plan(self: &Arc<Self>, planned: PlannedMove, epoch: Epoch) -> bool {
        let moves = &self.others.moves;
        if moves.is_planned(&planned.key) {
            return true;
        }
        let (root, key) = (planned.root.path(), planned.key.clone());
        let [theirs, mine] = self
            .others
            .placement
            .loads(root, [&planned.owner.host, &self.identity.id]);
        // The owner of an earlier run first claims the partition for this run. A host without an
        // address serves its own executor only.
        if self.identity.endpoint.is_none()
            || planned.owner.term.run != planned.run
            || !relieves(theirs, mine)
        {
            return false;
        }
        if moves.add(planned, epoch) {
            let host = Arc::clone(self);
            let started = thread::Builder::new()
                .name("moves".to_owned())
                .spawn(move || host.make_moves());
            if let Err(error) = started {
                log::warn!("partitions stay where they are: {error}");
                moves.drop_all();
            }
        }
        moves.is_planned(&key)
    }

    /// Makes the planned moves. They are made one after the other, because they share disk and
    /// network with the epochs.
    fn make_moves(&self) {
        let _ends = self.others.moves.guard();
        while let Some(planned) = self.others.moves.next() {
            let (key, placement) = (&planned.key, &self.others.placement);
            let failed = match self.relieve(&planned) {
                Ok(()) => None,
                Err(error) => {
                    log::warn!(
                        "operator {}, partition {}: not taken over from {:?}: {error}",
                        key.operator,
                        key.partition,
                        planned.owner
                    );
                    let newest = placement.newest(planned.root.path());
                    newest.map(|(_, epoch)| epoch)
                }
            };
            if !placement.is_owner(key, &self.identity.id) {
                self.close_moved(key, &planned.owner);
            }
            self.others.moves.end(key, failed);
        }
    }

    /// Restores a partition and takes it over, if the move is still worth it.
    fn relieve(&self, planned: &PlannedMove) -> Result<()> {
        let PlannedMove {
            key,
            request,
            root,
            run,
            owner,
        } = planned;
        if !self.is_worth(planned)? {
            return Ok(());
        }
        let first_epoch = root.operators.first_epoch(&key.operator)?;
        self.apply_memory(&request.settings);
        let partition = self.partition(request, root, &key.query_id);
        let mut epoch = None;
        // A long restore is followed by shorter ones, until at most one epoch is missing: the one
        // that was decided meanwhile.
        loop {
            let newest = match self.others.placement.newest(root.path()) {
                Some((newest_run, newest)) if newest_run == *run => newest,
                _ => return Ok(()),
            };
            if epoch == Some(newest) {
                return Ok(());
            }
            epoch = Some(newest);
            let next = self.prepare(&partition, planned, newest, first_epoch)?;
            let latest = self.others.placement.newest(root.path());
            if latest.is_some_and(|(_, latest)| next.next() >= latest) {
                break;
            }
        }
        if !self.is_worth(planned)? {
            return Ok(());
        }
        let ownership = root.owners.acquire(&OwnershipRequest {
            operator: &key.operator,
            partition: key.partition,
            run: *run,
            host: &self.claim(request, *run),
            unreachable: &HashMap::new(),
            restored: Some(owner.term),
        })?;
        if matches!(ownership, Ownership::Held(_)) {
            self.others.placement.see(key.clone(), &self.identity.id);
        }
        Ok(())
    }

    /// Restores the state before an epoch; returns the first epoch that the database then lacks.
    fn prepare(
        &self,
        partition: &Arc<PartitionState>,
        planned: &PlannedMove,
        epoch: Epoch,
        first_epoch: Epoch,
    ) -> Result<Epoch> {
        let request = &planned.request;
        let applied = partition.prepare(&ViewRequest {
            run: planned.run,
            epoch,
            // The session checks this itself.
            planned_at: None,
            first_epoch,
            ran: self.ran_before(&planned.root, request, (planned.run, epoch), first_epoch),
            partitions: request.partitions,
            stores: &request.operator.stores(),
            options: &request.settings.database_options(),
            executor: self.executor(),
            snapshots: request.settings.snapshots(),
            flushes: request.settings.flushes(),
            memory: self.memory().uncommitted(),
        })?;
        Ok(applied.map_or(first_epoch, Epoch::next))
    }

    /// Whether the owner still serves at least two partitions more than this host. If the two loads
    /// are close, the claims are read again.
    fn is_worth(&self, planned: &PlannedMove) -> Result<bool> {
        let (path, owner) = (planned.root.path(), &planned.owner.host);
        let placement = &self.others.placement;
        let [theirs, mine] = placement.loads(path, [owner, &self.identity.id]);
        if relieves(theirs, mine) && needs_recount(theirs, mine) {
            for key in placement.partitions_of(path, owner) {
                if let Some(now) = planned.root.owners.newest(&key.operator, key.partition)? {
                    placement.see(key, &now.host);
                }
            }
        }
        let [theirs, mine] = placement.loads(path, [owner, &self.identity.id]);
        Ok(relieves(theirs, mine))
    }
}
