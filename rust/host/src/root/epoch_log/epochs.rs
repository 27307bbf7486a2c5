//! Lists the epochs of the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_core::Result;
use parking_lot::Mutex;

use crate::protocol::{Epoch, ObjectId, OperatorName, RunNumber};
use crate::root::names;
use crate::root::objects::Objects;
use crate::root::rewind_marks::{RewindMarks, Rewinds};

/// The files of an epoch, without its chunks.
#[derive(Clone, Debug)]
pub struct EpochFiles {
    /// The staged objects.
    pub heads: Vec<ObjectId>,
    /// The decisions, each by the run of the newest rewind before it; 0 if there was none.
    pub decisions: Vec<RunNumber>,
}

impl EpochFiles {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.decisions.is_empty()
    }

    fn retain_in_force(&mut self, epoch: Epoch, rewinds: &Rewinds) {
        let newest = rewinds.newest_of(epoch);
        self.heads.retain(|head| !rewinds.include(head.run, epoch));
        self.decisions.retain(|rewind| *rewind == newest);
    }
}

/// The log of a root.
#[derive(Debug)]
pub struct EpochLog {
    pub(super) objects: Arc<Objects>,
    pub(super) marks: Arc<RewindMarks>,
    /// The newest epoch in the log, as first read in a run.
    newest: Mutex<Option<(RunNumber, Option<Epoch>)>>,
}

impl EpochLog {
    /// The log of a root.
    pub(in crate::root) fn new(objects: Arc<Objects>, marks: Arc<RewindMarks>) -> Self {
        Self {
            objects,
            marks,
            newest: Mutex::default(),
        }
    }

    /// The marks of rewinds. Objects that a rewind took back are not in force.
    pub(in crate::root) fn marks(&self) -> &RewindMarks {
        &self.marks
    }

    /// Lists the heads of an epoch, of one operator or of all.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn list(&self, operator: Option<&OperatorName>, epoch: Epoch) -> Result<Vec<ObjectId>> {
        let mut heads = self.files(epoch)?.heads;
        heads.retain(|object| operator.is_none_or(|operator| *operator == object.operator));
        Ok(heads)
    }

    /// Lists the heads and decisions of an epoch, without those that a rewind took back.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn files_in_force(&self, epoch: Epoch) -> Result<EpochFiles> {
        self.files_after(epoch, &self.marks.read()?)
    }

    /// As [`EpochLog::files_in_force`], for rewinds that the caller has read.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn files_after(&self, epoch: Epoch, rewinds: &Rewinds) -> Result<EpochFiles> {
        let mut files = self.files(epoch)?;
        files.retain_in_force(epoch, rewinds);
        Ok(files)
    }

    fn files(&self, epoch: Epoch) -> Result<EpochFiles> {
        let files = self.objects.list(&names::epoch(epoch))?;
        Ok(EpochFiles {
            heads: files
                .iter()
                .filter_map(|file| names::parse_head(file))
                .collect(),
            decisions: files
                .iter()
                .filter_map(|file| names::parse_decision(file))
                .collect(),
        })
    }

    /// Lists the epochs that have a folder in the log, unordered.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn epochs(&self) -> Result<Vec<Epoch>> {
        Ok(self
            .objects
            .folders(names::LOG)?
            .iter()
            .filter_map(|folder| folder.parse().ok().map(Epoch))
            .collect())
    }

    /// Returns whether the log has an epoch that no host is about to remove.
    ///
    /// A host that was killed may have removed a part of such an epoch. The marks are read first: a
    /// mark is removed only after everything that it names.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn has_whole(&self, epoch: Epoch) -> Result<bool> {
        let (trims, rewinds) = (self.trims()?, self.marks.read()?);
        let mark = trims.find(epoch, rewinds.newest_of(epoch));
        Ok(mark.is_none() && !self.files_after(epoch, &rewinds)?.is_empty())
    }

    /// Returns the first epoch of the gapless range in the log that ends with `last`; none if the
    /// log does not have `last`.
    ///
    /// Epochs that a host is about to remove do not count.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn first_before(&self, last: Epoch) -> Result<Option<Epoch>> {
        let (rewinds, trims) = (self.marks.read()?, self.trims()?);
        let epochs: BTreeSet<Epoch> = self.epochs()?.into_iter().collect();
        let is_there = |epoch: &Epoch| {
            epochs.contains(epoch) && trims.find(*epoch, rewinds.newest_of(*epoch)).is_none()
        };
        let back = std::iter::successors(Some(last), |epoch| epoch.previous());
        Ok(back.take_while(is_there).last())
    }

    /// Returns the run of the newest rewind; 0 if there is none.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn newest_rewind(&self) -> Result<RunNumber> {
        self.newest_rewind_of(Epoch(i64::MAX))
    }

    /// Returns the run of the newest rewind that took an epoch back; 0 if there is none.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn newest_rewind_of(&self, epoch: Epoch) -> Result<RunNumber> {
        Ok(self.marks.read()?.newest_of(epoch))
    }

    /// Returns the newest epoch in the log, read once in each run.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn newest(&self, run: RunNumber) -> Result<Option<Epoch>> {
        let mut cached = self.newest.lock();
        match *cached {
            Some((of_run, newest)) if of_run == run => Ok(newest),
            _ => {
                let newest = self.epochs()?.into_iter().max();
                *cached = Some((run, newest));
                Ok(newest)
            }
        }
    }

    /// Returns whether an epoch, or a later one, was in the log when this process first listed the
    /// log in a run.
    ///
    /// The run must have claimed its number before. If the listing did not have the epoch, no sink
    /// gets an older run's results of it: an older run that stages it later reads the claim, and is
    /// fenced.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn had(&self, run: RunNumber, epoch: Epoch) -> Result<bool> {
        Ok(self.newest(run)?.is_some_and(|newest| newest >= epoch))
    }

    /// Returns the newest epoch from `first` on that Spark certainly committed; none if there is
    /// no such epoch.
    ///
    /// An epoch with a decision was committed. If an epoch has a staged object, the epoch before it
    /// was committed: a session opens only after that commit, and the decision of the earlier epoch
    /// makes its commit durable.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn newest_commit(&self, first: Epoch) -> Result<Option<Epoch>> {
        let mut epochs = self.epochs()?;
        epochs.retain(|epoch| *epoch >= first);
        epochs.sort_unstable();
        for epoch in epochs.into_iter().rev() {
            let files = self.files_in_force(epoch)?;
            if !files.decisions.is_empty() {
                return Ok(Some(epoch));
            }
            if !files.heads.is_empty() {
                return Ok(epoch.previous().filter(|committed| *committed >= first));
            }
        }
        Ok(None)
    }

    /// Returns whether an operator that `wanted` accepts has staged an epoch after this one.
    ///
    /// If so, this epoch was complete: the later one was computed on its state.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn has_later(&self, epoch: Epoch, wanted: impl Fn(&OperatorName) -> bool) -> Result<bool> {
        self.any_later(epoch, |files| {
            files.heads.iter().any(|object| wanted(&object.operator))
        })
    }

    /// Returns whether an epoch after this one has an object or a decision.
    ///
    /// # Errors
    /// As [`EpochLog::has_later`].
    pub fn has_later_files(&self, epoch: Epoch) -> Result<bool> {
        self.any_later(epoch, |files| !files.is_empty())
    }

    fn any_later(&self, epoch: Epoch, wanted: impl Fn(&EpochFiles) -> bool) -> Result<bool> {
        let rewinds = self.marks.read()?;
        for later in self.epochs()?.into_iter().filter(|later| *later > epoch) {
            if wanted(&self.files_after(later, &rewinds)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a rewind took this epoch back and the log has no newer object of it.
    ///
    /// # Errors
    /// `Restore` for a mark that cannot be read, `Io`.
    pub fn was_taken_back(&self, applied: Epoch) -> Result<bool> {
        let is_covered = self.marks.read()?.newest_of(applied) != RunNumber(0);
        Ok(is_covered && self.files_in_force(applied)?.is_empty())
    }
}
