//! Reads snapshots without a copy, to find damage.

use std::collections::HashSet;

use holdfast_core::{Error, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::repository::SnapshotRepository;
use crate::protocol::Digest;
use crate::root::names::SnapshotId;

impl SnapshotRepository {
    /// Reads all files of a snapshot except those in `known`. Returns the damaged ones, each with
    /// its name in the root and the error.
    ///
    /// Files that are whole are added to `known`, since snapshots share files. `read` is called
    /// after each object.
    ///
    /// # Errors
    /// `Restore` for a manifest that cannot be read, `Io` if the disk fails, and those of `read`.
    pub fn verify(
        &self,
        id: &SnapshotId,
        known: &mut HashSet<String>,
        read: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<(String, Error)>> {
        let (manifest, mut damage) = (self.manifest(id)?, Vec::new());
        read()?;
        for file in manifest.files {
            let object = file.object(id);
            if known.contains(&object) {
                continue;
            }
            let mut hasher = Xxh3Default::new();
            let length = self
                .objects
                .read_pieces(&object, |bytes| hasher.update(bytes))?;
            let place = self.objects.place(&object);
            match file.check_content(&place, length, Digest::from_hasher(&hasher)) {
                Ok(()) => drop(known.insert(object)),
                Err(error) => damage.push((object, error)),
            }
            read()?;
        }
        Ok(damage)
    }
}
