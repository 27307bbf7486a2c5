//! `holdfast verify`: reads the objects of a root that are in force and finds those that are
//! damaged.
//!
//! It does not read `followers/`, `removed/`, chunks that no head names, files of snapshots that no
//! manifest names, or Spark's files other than the metadata and the offsets.
//!
//! The query may run. Hosts remove old epochs and snapshots meanwhile, each after its mark. So a
//! missing object is checked once more. It is not damage if it is marked, or if no object names it
//! any more.
//!
//! Log objects and files of snapshots have digests, so any change of them is found. JSON objects
//! and files of far-future rows have no digests: they are parsed, and most of them are compared
//! with the objects that refer to them.

mod claims;
mod epochs;
mod far_future;
mod report;
mod restores;
mod snapshots;
mod walk;

use holdfast_core::{Error, ErrorKind, Result};

use super::state_root::Root;
pub use report::{Damage, VerificationProgress, VerificationReport};
use walk::VerificationWalk;

impl Root {
    /// Reads all objects in force and checks digests and chains. Changes nothing.
    ///
    /// `progress` is called after each object and each step; its error ends the verification.
    ///
    /// # Errors
    /// `StateMismatch` if the root holds no state, `InvalidState` if there is damage and a rewind
    /// took epochs back meanwhile, `Io` if the disk or the object store fails, and those of
    /// `progress`.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(VerificationProgress) -> Result<()>,
    ) -> Result<VerificationReport> {
        let mut walk = VerificationWalk::new(self, progress);
        let Some((query, partitions)) = walk.meta()? else {
            return Ok(walk.report);
        };
        walk.claims(&query)?;
        walk.operators()?;
        let Some(rewinds) = walk.rewinds()? else {
            return Ok(walk.report);
        };
        let (epochs, folders) = (walk.listed_epochs()?, walk.snapshot_folders()?);
        walk.expect((epochs.len() + folders.len()) as u64);
        walk.epochs(epochs, &rewinds)?;
        walk.runs_of_log()?;
        walk.snapshots(folders)?;
        walk.restores(partitions)?;
        walk.far_future_rows()?;
        walk.finish(&rewinds)
    }

    /// As [`Root::verify`], with the report as JSON.
    ///
    /// # Errors
    /// As [`Root::verify`].
    pub fn verify_json(
        &self,
        progress: &mut dyn FnMut(VerificationProgress) -> Result<()>,
    ) -> Result<String> {
        serde_json::to_string(&self.verify(progress)?).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("the report of a verification: {error}"),
            )
        })
    }
}
