//! Removes old epochs of the log.

use holdfast_core::Result;

use super::epochs::EpochLog;
use crate::protocol::{Epoch, RunNumber};
use crate::root::names;

/// The marks of hosts that remove old epochs of the log: `trims/<epoch>.<run>`.
///
/// Such a host removes the objects of all epochs before the mark's, if they are of its run or of an
/// earlier one.
#[derive(Clone, Debug)]
pub struct LogTrims(Vec<(Epoch, RunNumber)>);

impl LogTrims {
    /// Returns the mark under which a host removes an epoch; none if there is no such mark.
    /// `rewind`: the run of the newest rewind that took the epoch back, or 0.
    ///
    /// A mark of a run before the rewind's does not count: all objects in force of an epoch that
    /// was taken back are of later runs than the rewind's. Under any other mark, all objects of the
    /// epoch are of the mark's run or of earlier runs: the host has a later snapshot, so the epoch
    /// was decided.
    pub fn find(&self, epoch: Epoch, rewind: RunNumber) -> Option<(Epoch, RunNumber)> {
        let mut marks = self.0.iter().copied();
        marks.find(|(before, run)| epoch < *before && rewind < *run)
    }
}

impl EpochLog {
    /// Reads the marks of removals.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn trims(&self) -> Result<LogTrims> {
        let files = self.objects.list(names::TRIMS)?;
        Ok(LogTrims(
            files
                .iter()
                .filter_map(|file| names::parse_trim(file))
                .collect(),
        ))
    }

    /// Marks that a host of `run` is going to remove all epochs before `first`.
    ///
    /// After the mark, the caller checks that no newer run has claimed, then removes the epochs. A
    /// rewind claims its run, then reads the marks. So either the caller is fenced, or the rewind
    /// does not use the epochs.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn mark_trim(&self, first: Epoch, run: RunNumber) -> Result<()> {
        self.objects
            .put_absent(&names::trim(first, run), b"{}")
            .map(drop)
    }

    /// Removes all epochs before this one, and the marks; returns how many epochs there were.
    ///
    /// Objects of runs after `run` stay: the caller may have stalled, and the query may have been
    /// rewound and have computed the epochs again.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn remove_before(&self, first: Epoch, run: RunNumber) -> Result<usize> {
        let mut old = self.epochs()?;
        old.retain(|epoch| *epoch < first);
        // Removed in order: an interruption leaves a range without a gap.
        old.sort_unstable();
        let is_old = move |file: &str| names::parse_run(file).is_none_or(|other| other <= run);
        old.iter()
            .try_for_each(|epoch| self.objects.remove_files(&names::epoch(*epoch), is_old))?;
        // Nothing that these marks name is left, and objects of later runs have other names. So a
        // host that put one of these marks and stalled has nothing left to remove.
        let LogTrims(marks) = self.trims()?;
        let done = |(before, marked): &(Epoch, RunNumber)| *before <= first && *marked <= run;
        marks
            .into_iter()
            .filter(done)
            .try_for_each(|(before, run)| self.objects.remove(&names::trim(before, run)))?;
        Ok(old.len())
    }
}
