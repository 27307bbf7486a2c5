//! An open local database.

use std::sync::Arc;
use std::time::Instant;

use holdfast_core::{Database, Result};

use super::directory::LocalDirectory;
use crate::partition::view_request::FlushPolicy;
use crate::protocol::RunNumber;

/// A database that is open, with its directory.
pub struct OpenDatabase {
    /// The database.
    pub db: Arc<Database>,
    /// Its directory.
    pub directory: LocalDirectory,
    /// The run for which the database was last checked to hold only decided objects.
    pub checked: Option<RunNumber>,
    flushed: Instant,
}

impl OpenDatabase {
    /// Returns a database that was just opened and not compared with the log yet.
    pub fn new(db: Arc<Database>, directory: LocalDirectory) -> Self {
        Self {
            db,
            directory,
            checked: None,
            flushed: Instant::now(),
        }
    }

    /// Flushes the database if a flush is due.
    pub fn flush_if_due(&mut self, policy: FlushPolicy) -> Result<()> {
        if policy.is_due(self.db.unflushed_bytes(), self.flushed.elapsed()) {
            self.db.flush(false)?;
            self.flushed = Instant::now();
        }
        Ok(())
    }
}

/// Closes a database. A failure is only logged: the log has all epochs, and the next host replays a
/// little more.
pub fn close(db: &Database) {
    if let Err(error) = db.close() {
        log::warn!("closing {}: {error}", db.path().display());
    }
}
