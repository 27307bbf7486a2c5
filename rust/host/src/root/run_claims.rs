//! `runs/`: each run of the query claims a number.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::names;
use super::objects::{Objects, PutOutcome};
use super::spark_checkpoint::SparkCheckpoint;
use crate::protocol::{self, Claim, ClaimStep, Epoch, RunNumber, Violation};

/// `runs/ids/<digest of the run id>`, put before the run's claim.
///
/// The run's claim has a number above `after`, so the search for it reads only the later claims,
/// however many runs there were.
#[derive(Serialize, Deserialize)]
struct RunIdMark {
    /// The newest claim of another run when the mark was put; 0 if there was none.
    after: RunNumber,
}

/// The claims of run numbers.
#[derive(Debug)]
pub struct RunClaims {
    objects: Arc<Objects>,
    spark: Arc<SparkCheckpoint>,
    /// Run numbers by Spark's run id; a claim never changes.
    known: Mutex<HashMap<String, RunNumber>>,
}

impl RunClaims {
    /// The claims of a root.
    pub(super) fn new(objects: Arc<Objects>, spark: Arc<SparkCheckpoint>) -> Self {
        Self {
            objects,
            spark,
            known: Mutex::default(),
        }
    }

    /// Returns the number of a run, and claims one if it has none.
    ///
    /// Call it before any object is listed for the run.
    ///
    /// # Errors
    /// `Fenced` if the run is not the newest, or begins with an epoch that Spark has committed;
    /// `Restore` for a claim that cannot be read, `Io` if the disk fails.
    pub fn claim(&self, query_id: &str, run_id: &str, first_epoch: Epoch) -> Result<RunNumber> {
        // Every session of every partition calls this, so the lock is not held during requests.
        let known = self.known.lock().get(run_id).copied();
        if let Some(number) = known {
            self.fence(number)?;
            return Ok(number);
        }
        loop {
            let claims = self.claims_for(run_id)?;
            match protocol::next_claim(
                &claims,
                run_id,
                first_epoch,
                self.spark.is_committed(first_epoch)?,
            ) {
                ClaimStep::Known(number) => {
                    protocol::fence(number, &claims)
                        .map_err(|fenced| self.objects.violation(fenced))?;
                    // Another host may have put the claim, and been killed before it synced the
                    // name. Without the name, the next run would take the same number.
                    self.objects.sync_names(&names::claim(number))?;
                    self.known.lock().insert(run_id.to_owned(), number);
                    return Ok(number);
                }
                ClaimStep::Put(number) => {
                    let (run_id, query_id) = (run_id.to_owned(), query_id.to_owned());
                    self.put(&Claim {
                        number,
                        run_id,
                        first_epoch,
                        query_id,
                    })?;
                }
                ClaimStep::Refused { epoch } => {
                    return Err(self.objects.violation(Violation::ClaimRefused {
                        epoch,
                        run_id: run_id.to_owned(),
                    }));
                }
            }
        }
    }

    /// Returns whether the root still has the claims of the runs that this process knows.
    ///
    /// After a root is restored from a backup, the numbers of runs that the backup lacks are used
    /// again. Only the newest known run is checked, and only if `run_id` is not known.
    ///
    /// # Errors
    /// `Restore` for a claim that cannot be read, `Io` if the disk fails.
    pub fn are_in_force(&self, run_id: &str) -> Result<bool> {
        let newest = {
            let known = self.known.lock();
            if known.contains_key(run_id) {
                return Ok(true);
            }
            known
                .iter()
                .max_by_key(|(_, number)| **number)
                .map(|(id, number)| (id.clone(), *number))
        };
        match newest {
            Some((id, number)) => Ok(self.read(number)?.is_some_and(|claim| claim.run_id == id)),
            None => Ok(true),
        }
    }

    /// Claims a run for a command, which fences all runs of the query before it.
    ///
    /// `random` makes the command's run id unique.
    ///
    /// # Errors
    /// `Restore` for a claim that cannot be read, `Io` if the disk fails.
    pub fn claim_by_hand(
        &self,
        command: &str,
        random: u64,
        query_id: &str,
        first_epoch: Epoch,
    ) -> Result<RunNumber> {
        let run_id = Claim::run_id_of(command, random);
        loop {
            match protocol::next_claim(&self.claims_for(&run_id)?, &run_id, first_epoch, false) {
                ClaimStep::Known(number) => return Ok(number),
                ClaimStep::Put(number) => {
                    self.put(&Claim {
                        number,
                        run_id: run_id.clone(),
                        first_epoch,
                        query_id: query_id.to_owned(),
                    })?;
                }
                ClaimStep::Refused { .. } => {}
            }
        }
    }

    /// Checks that no newer run has claimed; called after every put or adoption, before it is
    /// acknowledged.
    ///
    /// Numbers leave no gap, so a newer run exists if and only if the next number is claimed. The
    /// check takes one request, however many runs there were.
    ///
    /// # Errors
    /// `Fenced` names the newest run; `Restore` if its claim cannot be read.
    pub fn fence(&self, mine: RunNumber) -> Result<()> {
        if self.objects.exists(&names::claim(mine.next()))? {
            protocol::fence(mine, self.newest()?.as_slice())
                .map_err(|fenced| self.objects.violation(fenced))?;
        }
        Ok(())
    }

    /// Returns the newest claim; the names alone say which it is.
    ///
    /// # Errors
    /// `Restore` for a claim that cannot be read, `Io` if the disk fails.
    pub fn newest(&self) -> Result<Option<Claim>> {
        let files = self.objects.list(names::RUNS)?;
        let numbers = files
            .iter()
            .filter(|file| file.len() == 20)
            .filter_map(|file| file.parse().ok().map(RunNumber));
        numbers.max().map_or(Ok(None), |number| self.read(number))
    }

    /// Returns all claims that may be this run's, and the newest claim.
    ///
    /// A mark may be missing, for example if `runs/ids` was not in a backup. A run without a mark
    /// is found only if its claim is the newest; then its mark has the number before its claim.
    fn claims_for(&self, run_id: &str) -> Result<Vec<Claim>> {
        // The listing comes before the mark, and the mark before any claim of the run. So no claim
        // of the run is among those at or below the mark.
        let Some(newest) = self.newest()? else {
            return self.mark(run_id, RunNumber(0)).map(|_| Vec::new());
        };
        let is_ours = newest.run_id == run_id;
        let RunNumber(after) =
            self.mark(run_id, RunNumber(newest.number.0 - u64::from(is_ours)))?;
        let others = after.saturating_add(1)..newest.number.0;
        let mut claims = others
            .filter_map(|number| self.read(RunNumber(number)).transpose())
            .collect::<Result<Vec<Claim>>>()?;
        claims.push(newest);
        Ok(claims)
    }

    /// Puts the run's mark if it is absent; returns the number in the mark that exists then.
    fn mark(&self, run_id: &str, after: RunNumber) -> Result<RunNumber> {
        let name = names::run_mark(run_id);
        let unreadable = |error: serde_json::Error| self.objects.unreadable(&name, &error);
        let json = serde_json::to_vec(&RunIdMark { after }).map_err(unreadable)?;
        let found = match self.objects.get(&name)? {
            Some(found) => {
                // The host that put it may have been killed before it synced the name.
                self.objects.sync_names(&name)?;
                found
            }
            None => match self.objects.put_absent(&name, &json)? {
                PutOutcome::Ours => return Ok(after),
                PutOutcome::Other(found) => found,
            },
        };
        serde_json::from_slice(&found)
            .map(|mark: RunIdMark| mark.after)
            .map_err(unreadable)
    }

    /// Puts a claim if its number is free. The caller reads the claims again in either case.
    fn put(&self, claim: &Claim) -> Result<()> {
        let json = serde_json::to_vec(claim).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("claim of run {}: {error}", claim.number),
            )
        })?;
        self.objects
            .put_absent(&names::claim(claim.number), &json)
            .map(|_: PutOutcome| ())
    }

    fn read(&self, number: RunNumber) -> Result<Option<Claim>> {
        let name = names::claim(number);
        let Some(bytes) = self.objects.get(&name)? else {
            return Ok(None);
        };
        let claim: Claim = serde_json::from_slice(&bytes).map_err(|error| {
            let place = self.objects.place(&name);
            let text = format!(
                "the claim of run {number} cannot be read ({error}): restore {} from a backup",
                place.display()
            );
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(Some(Claim { number, ..claim }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use object_store::ObjectStore;

    use super::*;
    use crate::root::testing::{Fault, FaultyStore};

    /// The claims of a host that has read none yet.
    fn claims(store: &Arc<impl ObjectStore>) -> RunClaims {
        let store = Arc::clone(store) as Arc<dyn ObjectStore>;
        let objects = Arc::new(Objects::over(store, Path::new("memory")));
        let spark = Arc::new(SparkCheckpoint::new(Arc::clone(&objects)));
        RunClaims::new(objects, spark)
    }

    #[test]
    fn a_start_sends_as_few_requests_after_a_hundred_starts_as_after_three() {
        let store = Arc::new(FaultyStore::new(Fault::None));
        let start = |run: u64| {
            let (before, run_id) = (store.requests(), format!("run {run}"));
            // Two hosts claim for the same run.
            for _ in 0..2 {
                assert_eq!(
                    claims(&store)
                        .claim("q", &run_id, Epoch(0))
                        .expect("claims"),
                    RunNumber(run)
                );
            }
            store.requests() - before
        };
        let requests: Vec<usize> = (1..=100).map(start).collect();
        assert_eq!(requests[99], requests[2], "{requests:?}");
    }

    #[test]
    fn claims_without_marks_are_found() {
        let store = Arc::new(FaultyStore::new(Fault::None));
        for (number, run_id) in [(1, "a"), (2, "b")] {
            let claim = Claim {
                number: RunNumber(number),
                run_id: run_id.to_owned(),
                first_epoch: Epoch(0),
                query_id: "q".to_owned(),
            };
            claims(&store).put(&claim).expect("puts");
        }
        let claim = |run_id| claims(&store).claim("q", run_id, Epoch(0));
        assert_eq!(claim("b").expect("continues"), RunNumber(2));
        assert_eq!(claim("c").expect("claims"), RunNumber(3));
        assert_eq!(
            claim("b").expect_err("not the newest").kind(),
            ErrorKind::Fenced
        );
    }
}
