//! `owners/`: which host serves a partition.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::protocol::{
    self, HostId, NEWEST_OWNERS, OperatorName, Owner, OwnerStep, PartitionId, RunNumber, Term,
};
use crate::root::names;
use crate::root::objects::{Objects, PutOutcome};
use crate::root::run_claims::RunClaims;

/// The number of earlier claims of a run that are retained when a host claims the partition.
///
/// A host that stalls while the partition moves more often than this does not detect the moves.
/// More claims would make each listing slower for all other hosts.
const RETAINED_CLAIMS: usize = 16;

/// A host's request for a partition.
#[derive(Debug)]
pub struct OwnershipRequest<'a> {
    /// The operator.
    pub operator: &'a OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The run of the task; it has claimed its number.
    pub run: RunNumber,
    /// The requesting host as its claim would name it; its term is ignored.
    pub host: &'a Owner,
    /// Hosts that could not be reached, each with the reason.
    pub unreachable: &'a HashMap<HostId, String>,
    /// The term of a live owner that the host relieves: the host has restored the partition.
    pub restored: Option<Term>,
}

/// The owner of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The requesting host, in this term.
    Held(Term),
    /// Another host, which owns the partition or has its most recent copy.
    Elsewhere(Owner),
}

/// The claims of partitions by hosts.
#[derive(Debug)]
pub struct OwnerClaims {
    objects: Arc<Objects>,
    runs: Arc<RunClaims>,
    /// Terms that this process holds. A claim never changes, so only later claims are checked.
    held: Mutex<HashMap<(OperatorName, PartitionId), Term>>,
}

impl OwnerClaims {
    /// The claims of a root.
    pub(in crate::root) fn new(objects: Arc<Objects>, runs: Arc<RunClaims>) -> Self {
        Self {
            objects,
            runs,
            held: Mutex::default(),
        }
    }

    /// Finds the owner of a partition; claims the partition if it has no reachable owner, or if the
    /// host relieves the owner.
    ///
    /// # Errors
    /// `Fenced` if a newer run owns it, `Restore` for a claim that cannot be read or is missing,
    /// `Io` if the disk fails.
    pub fn acquire(&self, request: &OwnershipRequest<'_>) -> Result<Ownership> {
        let OwnershipRequest {
            operator,
            partition,
            run,
            host,
            unreachable,
            restored,
        } = *request;
        let key = (operator.clone(), partition);
        if let Some(term) = self.term(operator, partition, run)? {
            return Ok(Ownership::Held(term));
        }
        loop {
            let terms = self.terms(operator, partition)?;
            let newest = terms
                .iter()
                .take(NEWEST_OWNERS)
                .filter_map(|term| self.owner(operator, partition, *term).transpose());
            let claims = newest.collect::<Result<Vec<Owner>>>()?;
            match protocol::owner_step(
                &claims,
                &host.host,
                run,
                host.application.as_deref(),
                &|host| unreachable.contains_key(host),
                restored,
            ) {
                OwnerStep::Held(term) => {
                    self.held.lock().insert(key, term);
                    return Ok(Ownership::Held(term));
                }
                OwnerStep::Ask(owner) => {
                    self.held.lock().remove(&key);
                    return Ok(Ownership::Elsewhere(owner.clone()));
                }
                OwnerStep::Put(term) => self.take_over(request, term, &terms, claims.first())?,
                OwnerStep::Superseded => {
                    self.runs.fence(run)?;
                    let place = self.objects.place(&names::owners(operator, partition));
                    let text = format!(
                        "{} has claims of a run after {run}, and runs/ lacks the claim of that \
                         run: restore runs/ from a backup",
                        place.display()
                    );
                    return Err(Error::new(ErrorKind::Restore, text));
                }
            }
        }
    }

    /// Returns the newest claim of a partition, of any host.
    ///
    /// # Errors
    /// `Restore` for a claim that cannot be read, `Io` if the disk fails.
    pub fn newest(&self, operator: &OperatorName, partition: PartitionId) -> Result<Option<Owner>> {
        let terms = self.terms(operator, partition)?;
        let newest = terms
            .first()
            .map(|term| self.owner(operator, partition, *term));
        Ok(newest.transpose()?.flatten())
    }

    /// Returns the term in which this process owned a partition in a run when it last checked.
    /// Sends no request.
    pub fn last_held(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        run: RunNumber,
    ) -> Option<Term> {
        let held = self.held.lock();
        let term = held.get(&(operator.clone(), partition)).copied();
        term.filter(|term| term.run == run)
    }

    /// Returns the term in which this process owns a partition in a run.
    ///
    /// # Errors
    /// `StoreClosed` if this process does not own the partition in the run, `Io` if the disk fails.
    pub fn held(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        run: RunNumber,
    ) -> Result<Term> {
        self.term(operator, partition, run)?.ok_or_else(|| {
            Error::new(
                ErrorKind::StoreClosed,
                "this host does not own the partition, and only the owner removes old snapshots",
            )
        })
    }

    /// Checks that this process has owned a partition since the start of a term, in the newest run.
    ///
    /// If another host owned it in between, that host may have taken snapshots.
    ///
    /// # Errors
    /// `Fenced` if the term's run is not the newest; `StoreClosed` if this process does not own the
    /// partition, or owns it in a later term.
    pub fn check(&self, operator: &OperatorName, partition: PartitionId, term: Term) -> Result<()> {
        self.runs.fence(term.run)?;
        if self.held(operator, partition, term.run)? == term {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::StoreClosed,
            "another host owned the partition meanwhile, and may have taken snapshots",
        ))
    }

    /// Returns the term in which this process owns a partition in a run, if it still does.
    ///
    /// Sends at most one request, which checks whether the next generation is claimed. It does not
    /// detect a newer run: `RunClaims::fence` does.
    fn term(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        run: RunNumber,
    ) -> Result<Option<Term>> {
        let Some(term) = self.last_held(operator, partition, run) else {
            return Ok(None);
        };
        let next = names::owner(operator, partition, term.next());
        let has_moved = self.objects.exists(&next)?;
        Ok((!has_moved).then_some(term))
    }

    /// Returns the claimed terms of a partition, newest first.
    fn terms(&self, operator: &OperatorName, partition: PartitionId) -> Result<Vec<Term>> {
        let files = self.objects.list(&names::owners(operator, partition))?;
        let mut terms: Vec<Term> = files
            .iter()
            .filter_map(|file| names::parse_owner(file))
            .collect();
        terms.sort_unstable_by_key(|term| std::cmp::Reverse(*term));
        Ok(terms)
    }

    /// Claims a term if it is free, and removes claims that are no longer needed.
    fn take_over(
        &self,
        request: &OwnershipRequest<'_>,
        term: Term,
        before: &[Term],
        from: Option<&Owner>,
    ) -> Result<()> {
        let OwnershipRequest {
            operator,
            partition,
            host,
            unreachable,
            restored,
            ..
        } = *request;
        let json = serde_json::to_vec(host).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("claim of ownership: {error}"),
            )
        })?;
        let name = names::owner(operator, partition, term);
        if self.objects.put_absent(&name, &json)? != PutOutcome::Ours {
            return Ok(());
        }
        match from {
            Some(owner) => {
                let why = match unreachable.get(&owner.host) {
                    Some(reason) => reason,
                    None if restored == Some(owner.term) => "it serves more partitions",
                    None => "it belongs to an earlier run or process",
                };
                log::info!(
                    "operator {operator}, partition {partition}: taken over for {term} from \
                     {owner:?}: {why}"
                );
            }
            None => log::info!("operator {operator}, partition {partition}: claimed for {term}"),
        }
        // Earlier owners in this run detect the end of their terms by later claims of the run.
        // Claims of earlier runs are no longer needed.
        let old = before
            .iter()
            .enumerate()
            .filter(|(age, other)| other.run < term.run || *age >= RETAINED_CLAIMS);
        old.map(|(_, term)| names::owner(operator, partition, *term))
            .try_for_each(|name| self.objects.remove(&name))
    }

    fn owner(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        term: Term,
    ) -> Result<Option<Owner>> {
        let name = names::owner(operator, partition, term);
        let Some(bytes) = self.objects.get(&name)? else {
            return Ok(None);
        };
        let owner: Owner = serde_json::from_slice(&bytes).map_err(|error| {
            let place = self.objects.place(&name);
            let text = format!(
                "the claim of ownership {} cannot be read ({error}): delete it, and a host \
                 writes a new one",
                place.display()
            );
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(Some(Owner { term, ..owner }))
    }
}
