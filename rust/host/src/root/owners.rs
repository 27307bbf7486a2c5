//! Which host serves a partition: claims of ownership.

use std::collections::HashMap;

use holdfast_core::{Error, ErrorKind, Result};

use super::store::Put;
use super::{Root, names};
use crate::protocol::{
    self, HostId, NEWEST_OWNERS, OperatorName, Owner, OwnerStep, PartitionId, RunNumber, Term,
};

/// So many claims of a run stay. A host that slept through more moves than this does not learn of
/// them; a listing that grows with every move would cost all others more.
const KEPT: usize = 16;

/// Who asks for a partition, and for what.
#[derive(Debug)]
pub struct Asking<'a> {
    /// Whose state.
    pub operator: &'a OperatorName,
    /// Which partition of it.
    pub partition: PartitionId,
    /// For a task of which run; its claim is visible.
    pub run: RunNumber,
    /// The host that asks, as its claim would name it; the term says nothing.
    pub host: &'a Owner,
    /// Hosts that did not answer, and how that was found.
    pub gone: &'a HashMap<HostId, String>,
}

/// Where a partition is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Here.
    Held(Term),
    /// There.
    Elsewhere(Owner),
}

impl Root {
    /// Finds the owner of a partition, and becomes it where there is none any more.
    ///
    /// # Errors
    /// `Fenced` if a newer run owns it, `Restore` for a claim that cannot be read, `Io` for what
    /// the disk refuses.
    pub fn own(&self, asking: &Asking<'_>) -> Result<Ownership> {
        let Asking {
            operator,
            partition,
            run,
            host,
            gone,
        } = *asking;
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
                &|host| gone.contains_key(host),
            ) {
                OwnerStep::Held(term) => {
                    self.held.lock().insert(key, term);
                    return Ok(Ownership::Held(term));
                }
                OwnerStep::Ask(owner) => {
                    self.held.lock().remove(&key);
                    return Ok(Ownership::Elsewhere(owner.clone()));
                }
                OwnerStep::Put(term) => self.take_over(asking, term, &terms, claims.first())?,
                OwnerStep::Superseded => {
                    self.fence(run)?;
                    let place = self.store.place(&names::owners(operator, partition));
                    let text = format!(
                        "{} has claims of a run after {run}, which is missing in runs/: restore \
                         runs/ from a backup",
                        place.display()
                    );
                    return Err(Error::new(ErrorKind::Restore, text));
                }
            }
        }
    }

    /// The term in which this process owns a partition in a run, if it still does: one look whether
    /// the next generation is claimed. A newer run is the fence's to find.
    pub(super) fn term(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        run: RunNumber,
    ) -> Result<Option<Term>> {
        let held = self
            .held
            .lock()
            .get(&(operator.clone(), partition))
            .copied();
        let Some(term) = held.filter(|term| term.run == run) else {
            return Ok(None);
        };
        Ok(
            if self
                .store
                .exists(&names::owner(operator, partition, term.next()))?
            {
                None
            } else {
                Some(term)
            },
        )
    }

    /// The terms of a partition that are claimed, newest first.
    fn terms(&self, operator: &OperatorName, partition: PartitionId) -> Result<Vec<Term>> {
        let files = self.store.list(&names::owners(operator, partition))?;
        let mut terms: Vec<Term> = files
            .iter()
            .filter_map(|file| names::parse_owner(file))
            .collect();
        terms.sort_unstable_by_key(|term| std::cmp::Reverse(*term));
        Ok(terms)
    }

    fn take_over(
        &self,
        asking: &Asking<'_>,
        term: Term,
        before: &[Term],
        from: Option<&Owner>,
    ) -> Result<()> {
        let Asking {
            operator,
            partition,
            host,
            gone,
            ..
        } = *asking;
        let json = serde_json::to_vec(host).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("claim of ownership: {error}"),
            )
        })?;
        if self
            .store
            .put_absent(&names::owner(operator, partition, term), &json)?
            != Put::Own
        {
            return Ok(());
        }
        match from {
            Some(owner) => {
                let why = gone.get(&owner.host).map_or(
                    "it is of a run or a process before this one",
                    String::as_str,
                );
                log::info!(
                    "operator {operator}, partition {partition}: taken over for {term} from \
                     {owner:?}: {why}"
                );
            }
            None => log::info!("operator {operator}, partition {partition}: taken for {term}"),
        }
        // Generations of this run tell their owners that they have ended; those of runs before are
        // of no use any more.
        let old = before
            .iter()
            .enumerate()
            .filter(|(age, other)| other.run < term.run || *age >= KEPT);
        old.map(|(_, term)| names::owner(operator, partition, *term))
            .try_for_each(|name| self.store.remove(&name))
    }

    fn owner(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        term: Term,
    ) -> Result<Option<Owner>> {
        let name = names::owner(operator, partition, term);
        let Some(bytes) = self.store.get(&name)? else {
            return Ok(None);
        };
        let owner: Owner = serde_json::from_slice(&bytes).map_err(|error| {
            let place = self.store.place(&name);
            let text = format!(
                "the claim of ownership {} cannot be read ({error}): delete it, a host makes it \
                 anew",
                place.display()
            );
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(Some(Owner { term, ..owner }))
    }
}
