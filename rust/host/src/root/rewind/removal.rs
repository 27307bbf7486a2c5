//! Moves objects to `removed/<run>/`.

use holdfast_core::{Error, ErrorKind, Result};

use crate::protocol::{Epoch, RunNumber};
use crate::root::names;
use crate::root::objects::Objects;
use crate::root::run_claims::RunClaims;

/// What a command removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedObjects {
    /// The run that the command claimed.
    pub run: RunNumber,
    /// How many objects are now below `removed/<run>/`.
    pub objects: usize,
}

/// A removal that is under way.
///
/// A query may start while the command works. So of the log's objects, a removal moves only those
/// of runs before the command's. It moves other objects only after a check that no query has
/// started.
pub struct Removal<'a> {
    objects: &'a Objects,
    runs: &'a RunClaims,
    removed: RemovedObjects,
}

impl<'a> Removal<'a> {
    /// Starts the removal of a command that has claimed `run`.
    pub fn new(objects: &'a Objects, runs: &'a RunClaims, run: RunNumber) -> Self {
        let removed = RemovedObjects { run, objects: 0 };
        Self {
            objects,
            runs,
            removed,
        }
    }

    /// Returns what was removed.
    ///
    /// # Errors
    /// As [`Removal::fence`].
    pub fn finish(self) -> Result<RemovedObjects> {
        self.fence()?;
        Ok(self.removed)
    }

    /// Checks that no query has started since the command claimed its run.
    ///
    /// # Errors
    /// `InvalidState` names the newer run.
    fn fence(&self) -> Result<()> {
        let mine = self.removed.run;
        match self.runs.newest()? {
            Some(newer) if newer.number > mine => {
                let text = format!(
                    "run {} of this query ({}) started while the command (run {mine}) worked: stop \
                     the query and repeat the command",
                    newer.number, newer.run_id
                );
                Err(Error::new(ErrorKind::InvalidState, text).path(self.objects.path()))
            }
            _ => Ok(()),
        }
    }

    /// Moves an object, if it exists. It is removed after the copy is complete.
    fn object(&mut self, name: &str) -> Result<()> {
        let copy = names::removed(self.removed.run, name);
        if self.objects.copy(name, &copy)? {
            self.objects.remove(name)?;
            self.removed.objects += 1;
        }
        Ok(())
    }

    /// Moves the log's folder of an epoch.
    pub fn epoch(&mut self, epoch: Epoch) -> Result<()> {
        let command = self.removed.run;
        // Objects of a query that has started since stay.
        let is_older = |file: &str| names::parse_run(file).is_none_or(|run| run < command);
        let (folder, chunks) = (names::epoch(epoch), names::chunks(epoch));
        self.files(&chunks, is_older)?;
        self.objects.remove_empty_folder(&chunks)?;
        self.files(&folder, is_older)?;
        self.objects.remove_empty_folder(&folder)
    }

    /// Moves these objects, whose names do not show a run.
    ///
    /// A query that starts meanwhile may write objects with the same names. So the caller lists the
    /// objects before this call, and this call moves them only if no query has started.
    ///
    /// # Errors
    /// As [`Removal::fence`].
    pub fn objects(&mut self, names: &[String]) -> Result<()> {
        self.fence()?;
        for name in names {
            self.object(name)?;
            // Only the absence of Spark's files says that its epochs were taken back.
            self.objects.sync_removal(name)?;
        }
        Ok(())
    }

    fn files(&mut self, folder: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let files = self.objects.list(folder)?;
        files
            .iter()
            .filter(|file| wanted(file))
            .try_for_each(|file| self.object(&format!("{folder}/{file}")))
    }
}
