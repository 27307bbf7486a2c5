//! Closes a database for an older layout.

use super::files::{CHECKPOINT, position_file};
use super::text_file::{self, Offsets};
use crate::database::database::Database;
use crate::error::Result;
use crate::failpoint::Failpoint;

impl Database {
    /// Writes the text files, and saves the rows that they cannot hold. The caller then drops the
    /// database's own families. A stop in between loses nothing: the families hold all rows until
    /// the first of them is dropped.
    pub(in crate::database) fn move_out(&self) -> Result<()> {
        Failpoint::BeforeMoveOut.pass()?;
        let checkpoint: Offsets = self.offsets_in_files()?.into_iter().collect();
        let position: Offsets = self
            .position()
            .offsets()
            .map(|(tp, offset)| (tp.clone(), offset))
            .collect();
        let persistent = self
            .stores
            .entries
            .iter()
            .filter(|entry| entry.spec.persistent);
        let mut files = vec![(CHECKPOINT.to_owned(), checkpoint)];
        files.extend(persistent.map(|entry| (position_file(&entry.spec.name), position.clone())));
        // As in Kafka Streams, there is no file without offsets.
        files.retain(|(_, offsets)| !offsets.is_empty());
        for (name, offsets) in &files {
            text_file::write_offsets(&self.path().join(name), offsets)?;
        }
        Failpoint::FilesMovedOut.pass()?;
        let texts: Vec<(String, String)> = files
            .into_iter()
            .map(|(name, offsets)| (name, text_file::text(&offsets)))
            .collect();
        self.rocks.copy_own_rows(&texts)
    }
}
