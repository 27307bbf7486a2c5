//! Moves objects to `removed/<run>/`.

use holdfast_core::Result;

use crate::protocol::{Epoch, OperatorName, RunNumber};
use crate::root::far_future_rows::FarFutureRows;
use crate::root::names;
use crate::root::objects::Objects;

/// What a command removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedObjects {
    /// The run that the command claimed.
    pub run: RunNumber,
    /// How many objects are now below `removed/<run>/`.
    pub objects: usize,
}

/// A removal that is under way.
pub struct Removal<'a> {
    objects: &'a Objects,
    removed: RemovedObjects,
}

impl<'a> Removal<'a> {
    /// Starts the removal of a command that has claimed `run`.
    pub fn new(objects: &'a Objects, run: RunNumber) -> Self {
        let removed = RemovedObjects { run, objects: 0 };
        Self { objects, removed }
    }

    /// What was removed.
    pub fn finish(self) -> RemovedObjects {
        self.removed
    }

    /// Moves an object, if it exists. The copy is put before the object is removed.
    pub fn object(&mut self, name: &str) -> Result<()> {
        let Some(content) = self.objects.get(name)? else {
            return Ok(());
        };
        self.objects
            .put_absent(&names::removed(self.removed.run, name), &content)?;
        self.objects.remove(name)?;
        self.removed.objects += 1;
        Ok(())
    }

    /// Moves the log's folder of an epoch.
    pub fn epoch(&mut self, epoch: Epoch) -> Result<()> {
        let (folder, chunks) = (names::epoch(epoch), names::chunks(epoch));
        self.files(&chunks, |_| true)?;
        self.objects.remove_empty_folder(&chunks)?;
        self.files(&folder, |_| true)?;
        // Objects that were put meanwhile belong to a query that has started, so they stay.
        self.objects.remove_empty_folder(&folder)
    }

    /// Moves the far-future rows of the epochs that `wanted` accepts.
    pub fn far_future(
        &mut self,
        rows: &FarFutureRows,
        wanted: impl Fn(Epoch) -> bool,
    ) -> Result<()> {
        rows.list(wanted)?
            .iter()
            .try_for_each(|object| self.object(object))
    }

    /// Moves all versions of these operators: each is a new operator when it next takes part.
    pub fn operators(&mut self, operators: &[OperatorName]) -> Result<()> {
        operators.iter().try_for_each(|operator| {
            self.files(names::OPERATORS, |file| {
                names::is_of_operator(file, operator)
            })
        })
    }

    fn files(&mut self, folder: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let files = self.objects.list(folder)?;
        files
            .iter()
            .filter(|file| wanted(file))
            .try_for_each(|file| self.object(&format!("{folder}/{file}")))
    }
}
