//! Runs claim their numbers.

use holdfast_core::{Error, ErrorKind, Result};

use super::store::Put;
use super::{Root, names};
use crate::protocol::{self, Claim, ClaimStep, Epoch, RunNumber, Violation};

impl Root {
    /// All claims.
    ///
    /// # Errors
    /// `Restore` for a claim that cannot be read, `Io` for what the disk refuses.
    pub fn claims(&self) -> Result<Vec<Claim>> {
        let files = self.store.list(names::RUNS)?;
        let numbers = files.iter().filter(|file| file.len() == 20).filter_map(|file| file.parse().ok().map(RunNumber));
        numbers.filter_map(|number| self.read_claim(number).transpose()).collect()
    }

    /// Puts a claim if its number is free. Read the claims again whatever comes of it.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn put_claim(&self, claim: &Claim) -> Result<()> {
        let json = serde_json::to_vec(claim)
            .map_err(|error| Error::new(ErrorKind::Serialization, format!("claim of run {}: {error}", claim.number)))?;
        self.store.put_absent(&names::claim(claim.number), &json).map(|_: Put| ())
    }

    /// The number of a run, claimed if it has none yet. Must come before the run lists any object.
    ///
    /// # Errors
    /// `Fenced` if the run is not the newest, or begins with an epoch that Spark has committed.
    pub fn claim(&self, query_id: &str, run_id: &str, first_epoch: Epoch) -> Result<RunNumber> {
        if let Some(number) = self.runs.lock().get(run_id).copied() {
            self.fence(number)?;
            return Ok(number);
        }
        loop {
            let claims = self.claims()?;
            match protocol::next_claim(&claims, run_id, first_epoch, self.spark_committed(first_epoch)?) {
                ClaimStep::Known(number) => {
                    protocol::fence(number, &claims).map_err(|fenced| self.broken(fenced))?;
                    self.runs.lock().insert(run_id.to_owned(), number);
                    return Ok(number);
                }
                ClaimStep::Put(number) => {
                    let (run_id, query_id) = (run_id.to_owned(), query_id.to_owned());
                    self.put_claim(&Claim { number, run_id, first_epoch, query_id })?;
                }
                ClaimStep::Refused { epoch } => {
                    return Err(self.broken(Violation::ClaimRefused { epoch, run_id: run_id.to_owned() }));
                }
            }
        }
    }

    /// Checks that no newer run has claimed: after every put or adoption, before it is acknowledged.
    ///
    /// Numbers leave no gap, so a newer run exists exactly if the next number is taken: one look, however many runs
    /// there were.
    ///
    /// # Errors
    /// `Fenced` names the newest run.
    pub fn fence(&self, mine: RunNumber) -> Result<()> {
        if self.store.exists(&names::claim(mine.next()))? {
            protocol::fence(mine, &self.claims()?).map_err(|fenced| self.broken(fenced))?;
        }
        Ok(())
    }

    fn read_claim(&self, number: RunNumber) -> Result<Option<Claim>> {
        let name = names::claim(number);
        let Some(bytes) = self.store.get(&name)? else { return Ok(None) };
        let claim: Claim = serde_json::from_slice(&bytes).map_err(|error| {
            let place = self.store.place(&name);
            let text = format!("the claim of run {number} cannot be read ({error}): restore {} from a backup", place.display());
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(Some(Claim { number, ..claim }))
    }
}
