//! Runs claim their numbers.

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::store::Put;
use super::{Root, names};
use crate::protocol::{self, Claim, ClaimStep, Epoch, RunNumber, Violation};

/// `runs/ids/<digest of the run id>`, put before the run's claim: it is looked for among the later
/// ones only, however many runs there were.
#[derive(Serialize, Deserialize)]
struct Mark {
    /// The newest claim before.
    after: RunNumber,
}

impl Root {
    /// The newest claim, and a run's own if it has one.
    ///
    /// A run of before there were marks is found if it is the newest, and has one then.
    ///
    /// # Errors
    /// `Restore` for a claim that cannot be read, `Io` for what the disk refuses.
    pub(super) fn claims_for(&self, run_id: &str) -> Result<Vec<Claim>> {
        // Listed before the mark is put, which comes before any claim of the run: none of its
        // claims is among those before it.
        let Some(newest) = self.newest_claim()? else {
            return self.mark(run_id, RunNumber(0)).map(|_| Vec::new());
        };
        let is_ours = newest.run_id == run_id;
        let RunNumber(after) =
            self.mark(run_id, RunNumber(newest.number.0 - u64::from(is_ours)))?;
        let others = after.saturating_add(1)..newest.number.0;
        let mut claims = others
            .filter_map(|number| self.read_claim(RunNumber(number)).transpose())
            .collect::<Result<Vec<Claim>>>()?;
        claims.push(newest);
        Ok(claims)
    }

    /// The newest claim. Numbers leave no gap, so names say which it is.
    pub(super) fn newest_claim(&self) -> Result<Option<Claim>> {
        let files = self.store.list(names::RUNS)?;
        let numbers = files
            .iter()
            .filter(|file| file.len() == 20)
            .filter_map(|file| file.parse().ok().map(RunNumber));
        numbers
            .max()
            .map_or(Ok(None), |number| self.read_claim(number))
    }

    /// The newest claim that was there when the run's first host came, which puts the mark.
    fn mark(&self, run_id: &str, after: RunNumber) -> Result<RunNumber> {
        let name = names::run_mark(run_id);
        let unreadable = |error: serde_json::Error| {
            let text = format!(
                "{} cannot be read ({error}): restore it from a backup",
                self.store.place(&name).display()
            );
            Error::new(ErrorKind::Restore, text)
        };
        let json = serde_json::to_vec(&Mark { after }).map_err(unreadable)?;
        let found = match self.store.get(&name)? {
            Some(found) => found,
            None => match self.store.put_absent(&name, &json)? {
                Put::Own => return Ok(after),
                Put::Other(found) => found,
            },
        };
        serde_json::from_slice(&found)
            .map(|mark: Mark| mark.after)
            .map_err(unreadable)
    }

    /// Puts a claim if its number is free. Read the claims again whatever comes of it.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn put_claim(&self, claim: &Claim) -> Result<()> {
        let json = serde_json::to_vec(claim).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("claim of run {}: {error}", claim.number),
            )
        })?;
        self.store
            .put_absent(&names::claim(claim.number), &json)
            .map(|_: Put| ())
    }

    /// The number of a run, claimed if it has none yet. Must come before the run lists any object.
    ///
    /// # Errors
    /// `Fenced` if the run is not the newest, or begins with an epoch that Spark has committed.
    pub fn claim(&self, query_id: &str, run_id: &str, first_epoch: Epoch) -> Result<RunNumber> {
        // Asked by every session of every partition: none waits for another's request.
        let known = self.runs.lock().get(run_id).copied();
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
                self.spark_committed(first_epoch)?,
            ) {
                ClaimStep::Known(number) => {
                    protocol::fence(number, &claims).map_err(|fenced| self.broken(fenced))?;
                    self.runs.lock().insert(run_id.to_owned(), number);
                    return Ok(number);
                }
                ClaimStep::Put(number) => {
                    let (run_id, query_id) = (run_id.to_owned(), query_id.to_owned());
                    self.put_claim(&Claim {
                        number,
                        run_id,
                        first_epoch,
                        query_id,
                    })?;
                }
                ClaimStep::Refused { epoch } => {
                    return Err(self.broken(Violation::ClaimRefused {
                        epoch,
                        run_id: run_id.to_owned(),
                    }));
                }
            }
        }
    }

    /// Checks that no newer run has claimed: after every put or adoption, before it is
    /// acknowledged.
    ///
    /// Numbers leave no gap, so a newer run exists exactly if the next number is taken: one look,
    /// however many runs there were.
    ///
    /// # Errors
    /// `Fenced` names the newest run.
    pub fn fence(&self, mine: RunNumber) -> Result<()> {
        if self.store.exists(&names::claim(mine.next()))? {
            protocol::fence(mine, self.newest_claim()?.as_slice())
                .map_err(|fenced| self.broken(fenced))?;
        }
        Ok(())
    }

    fn read_claim(&self, number: RunNumber) -> Result<Option<Claim>> {
        let name = names::claim(number);
        let Some(bytes) = self.store.get(&name)? else {
            return Ok(None);
        };
        let claim: Claim = serde_json::from_slice(&bytes).map_err(|error| {
            let place = self.store.place(&name);
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
    use std::sync::Arc;

    use object_store::ObjectStore;

    use super::*;
    use crate::root::careless::{Careless, Fault};

    #[test]
    fn a_start_asks_as_little_after_a_hundred_starts_as_after_three() {
        let store = Arc::new(Careless::new(Fault::None));
        // Each start is of a host that knows nothing yet, and two hosts ask.
        let start = |run: u64| {
            let (before, run_id) = (store.requests(), format!("run {run}"));
            for _ in 0..2 {
                let root = Root::over(
                    Arc::clone(&store) as Arc<dyn ObjectStore>,
                    Path::new("memory"),
                );
                assert_eq!(
                    root.claim("q", &run_id, Epoch(0)).expect("claims"),
                    RunNumber(run)
                );
            }
            store.requests() - before
        };
        let asked: Vec<usize> = (1..=100).map(start).collect();
        assert_eq!(asked[99], asked[2], "{asked:?}");
    }

    #[test]
    fn runs_of_before_there_were_marks_are_known() {
        let store: Arc<dyn ObjectStore> = Arc::new(Careless::new(Fault::None));
        let root = || Root::over(Arc::clone(&store), Path::new("memory"));
        let claim = |number: u64, run_id: &str| {
            let (run_id, query_id) = (run_id.to_owned(), "q".to_owned());
            root()
                .put_claim(&Claim {
                    number: RunNumber(number),
                    run_id,
                    first_epoch: Epoch(0),
                    query_id,
                })
                .expect("puts");
        };
        claim(1, "a");
        claim(2, "b");
        assert_eq!(
            root().claim("q", "b", Epoch(0)).expect("goes on"),
            RunNumber(2)
        );
        assert_eq!(
            root().claim("q", "c", Epoch(0)).expect("claims"),
            RunNumber(3)
        );
        assert_eq!(
            root()
                .claim("q", "b", Epoch(0))
                .expect_err("not the newest")
                .kind(),
            ErrorKind::Fenced
        );
    }
}
