//! `holdfast epoch drop`.

use holdfast_core::{Error, ErrorKind, Result};

use super::removal::{Removal, RemovedObjects};
use crate::protocol::Epoch;
use crate::root::names;
use crate::root::state_root::Root;

impl Root {
    /// Removes what was staged for an epoch that Spark has not committed, and the operators that
    /// began with it, so that other code can compute the epoch.
    ///
    /// The command puts a mark, as a rewind does. The mark also covers later epochs, but Spark has
    /// not begun any of them.
    ///
    /// None if there is nothing to remove: then no run is claimed, and a running query continues.
    ///
    /// # Errors
    /// `InvalidState` if Spark has committed the epoch, or a query starts meanwhile; those of
    /// [`RootIdentity::query`](crate::root::RootIdentity::query); `Io`.
    pub fn drop_epoch(&self, epoch: Epoch) -> Result<Option<RemovedObjects>> {
        let (query, _) = self.identity.query()?;
        // Spark retains only the commits of its last epochs, so a later commit proves this one,
        // too. If the commit log is lost, the log proves it. No later epoch may be committed,
        // because the mark below also covers later epochs.
        if self
            .spark
            .latest_commit()?
            .is_some_and(|latest| latest >= epoch)
            || self.log.newest_commit(epoch)?.is_some()
        {
            let text = format!(
                "Spark has committed epoch {epoch}, so its output is in the sink: it cannot be \
                 dropped. To compute it again, take the state back with `holdfast rewind {} \
                 --epoch {epoch}`",
                self.path().display()
            );
            return Err(Error::new(ErrorKind::InvalidState, text).path(self.path()));
        }
        let is_dropped = |other| other == epoch;
        if self.operators.begun_since(epoch)?.is_empty()
            && self.objects.list(&names::epoch(epoch))?.is_empty()
            && self.far_future.list(is_dropped)?.is_empty()
        {
            return Ok(None);
        }
        // Everything is listed again after the claim: a host that is still running may have put
        // something meanwhile.
        let run = self.claim_by_hand("holdfast epoch drop", &query, epoch)?;
        // From here on no object of an earlier run counts, not even one that a task puts later.
        self.log.marks().put(run, epoch)?;
        let mut removal = Removal::new(&self.objects, &self.runs, run);
        removal.epoch(epoch)?;
        let mut others = self.far_future.list(is_dropped)?;
        others.extend(self.operators.begun_since(epoch)?);
        removal.objects(&others)?;
        removal.finish().map(Some)
    }
}
