//! Lists and removes the epochs of the log.

use std::sync::Arc;

use holdfast_core::Result;
use parking_lot::Mutex;

use crate::protocol::{Epoch, ObjectId, OperatorName, RunNumber};
use crate::root::names;
use crate::root::objects::Objects;
use crate::root::rewind_marks::RewindMarks;

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

    /// The marks of rewinds, which the log respects.
    pub(in crate::root) fn marks(&self) -> &RewindMarks {
        &self.marks
    }

    /// Lists the heads of an epoch, of one operator or of all.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn list(&self, operator: Option<&OperatorName>, epoch: Epoch) -> Result<Vec<ObjectId>> {
        let files = self.objects.list(&names::epoch(epoch))?;
        let heads = files.iter().filter_map(|file| names::parse_head(file));
        Ok(heads
            .filter(|object| operator.is_none_or(|operator| *operator == object.operator))
            .collect())
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

    /// Returns the newest epoch after `after` that has objects which were not taken back.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn newest_staged(&self, after: Epoch) -> Result<Option<Epoch>> {
        let (mut epochs, rewinds) = (self.epochs()?, self.marks.read()?);
        epochs.retain(|epoch| *epoch > after);
        epochs.sort_unstable();
        for epoch in epochs.into_iter().rev() {
            if self
                .list(None, epoch)?
                .iter()
                .any(|object| !rewinds.include(object.run, epoch))
            {
                return Ok(Some(epoch));
            }
        }
        Ok(None)
    }

    /// Whether an operator that `wanted` accepts has staged an epoch after this one.
    ///
    /// If so, this epoch was complete: the later one was computed on its state.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn has_later(&self, epoch: Epoch, wanted: impl Fn(&OperatorName) -> bool) -> Result<bool> {
        let rewinds = self.marks.read()?;
        for later in self.epochs()?.into_iter().filter(|later| *later > epoch) {
            if self
                .list(None, later)?
                .iter()
                .any(|object| wanted(&object.operator) && !rewinds.include(object.run, later))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a database that holds this epoch was overtaken by a rewind.
    ///
    /// # Errors
    /// `Restore` for a mark that cannot be read, `Io`.
    pub fn was_taken_back(&self, applied: Epoch) -> Result<bool> {
        let rewinds = self.marks.read()?;
        if !rewinds.include_epoch(applied) {
            return Ok(false);
        }
        Ok(self
            .list(None, applied)?
            .iter()
            .all(|object| rewinds.include(object.run, applied)))
    }

    /// Removes all epochs before this one; returns how many there were.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn remove_before(&self, first: Epoch) -> Result<usize> {
        let old: Vec<Epoch> = self
            .epochs()?
            .into_iter()
            .filter(|epoch| *epoch < first)
            .collect();
        old.iter()
            .try_for_each(|epoch| self.objects.remove_folder(&names::epoch(*epoch)))?;
        Ok(old.len())
    }
}
