//! `rewinds/<run>`: the first epoch that `holdfast rewind` took back, or the one that `holdfast
//! epoch drop` removed.

use std::sync::Arc;

use holdfast_core::Result;
use serde::{Deserialize, Serialize};

use super::names;
use super::objects::Objects;
use super::run_claims::RunClaims;
use crate::protocol::{Epoch, RunNumber};

/// The content of a mark.
#[derive(Serialize, Deserialize)]
pub struct RewindMark {
    /// The first epoch that was taken back; all later ones were, too.
    pub epoch: Epoch,
}

/// All marks, each with the run that the command claimed. A drop counts as a rewind.
pub struct Rewinds(Vec<(RunNumber, Epoch)>);

impl Rewinds {
    /// Returns whether a rewind took back what this run wrote for an epoch.
    ///
    /// Also true for an object that a host of the run wrote after the command, before the host was
    /// fenced.
    pub fn include(&self, run: RunNumber, epoch: Epoch) -> bool {
        self.0
            .iter()
            .any(|(rewind, from)| run < *rewind && epoch >= *from)
    }

    /// Returns the run of the newest rewind that took this epoch back; 0 if there is none.
    pub fn newest_of(&self, epoch: Epoch) -> RunNumber {
        let covering = self.0.iter().filter(|(_, from)| epoch >= *from);
        covering
            .map(|(rewind, _)| *rewind)
            .max()
            .unwrap_or(RunNumber(0))
    }
}

/// The marks of a root.
#[derive(Debug)]
pub struct RewindMarks {
    objects: Arc<Objects>,
    runs: Arc<RunClaims>,
}

impl RewindMarks {
    /// The marks of a root.
    pub(super) fn new(objects: Arc<Objects>, runs: Arc<RunClaims>) -> Self {
        Self { objects, runs }
    }

    /// Puts the mark of the rewind, or of the drop, that claimed `run`.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn put(&self, run: RunNumber, epoch: Epoch) -> Result<()> {
        let json = serde_json::to_vec(&RewindMark { epoch })
            .map_err(|error| self.objects.unreadable(names::REWINDS, &error))?;
        self.objects
            .put_absent(&names::rewind(run), &json)
            .map(drop)
    }

    /// Reads all marks.
    ///
    /// # Errors
    /// `Restore` for a mark that cannot be read, `Io`.
    pub fn read(&self) -> Result<Rewinds> {
        let mut rewinds = Vec::new();
        for file in self.objects.list(names::REWINDS)? {
            let Ok(run) = file.parse().map(RunNumber) else {
                continue;
            };
            if let Some(mark) = self.objects.get_json::<RewindMark>(&names::rewind(run))? {
                rewinds.push((run, mark.epoch));
            }
        }
        Ok(Rewinds(rewinds))
    }

    /// Checks that `run` is still the newest.
    ///
    /// # Errors
    /// `Fenced` if a newer run has claimed, `Io`.
    pub fn fence(&self, run: RunNumber) -> Result<()> {
        self.runs.fence(run)
    }

    /// Checks after a put that `run`, which put the object `name` for `epoch`, is still the newest.
    ///
    /// If a rewind or a drop took the epoch back meanwhile, the object is removed: the command may
    /// not have listed it, and the query would find it when it computes the epoch again.
    ///
    /// # Errors
    /// `Fenced` if a newer run has claimed, `Restore` for a mark that cannot be read, `Io`.
    pub fn fence_put(&self, name: &str, epoch: Epoch, run: RunNumber) -> Result<()> {
        self.runs.fence(run).or_else(|fenced| {
            if self.read()?.include(run, epoch) {
                self.objects.remove(name)?;
            }
            Err(fenced)
        })
    }
}
