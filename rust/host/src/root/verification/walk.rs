//! The state that the steps of a verification share: the report, and the conversion of errors into
//! its entries.

use std::collections::BTreeSet;

use holdfast_core::{Error, ErrorKind, Result};

use super::report::{Damage, VerificationProgress, VerificationReport};
use crate::protocol::{Epoch, RunNumber};
use crate::root::rewind_marks::Rewinds;
use crate::root::state_root::Root;

/// A verification while it reads.
pub(super) struct VerificationWalk<'a> {
    pub(super) root: &'a Root,
    pub(super) report: VerificationReport,
    /// The runs that have objects in the log.
    pub(super) runs: BTreeSet<RunNumber>,
    progress: &'a mut dyn FnMut(VerificationProgress) -> Result<()>,
    done: u64,
    total: u64,
}

impl<'a> VerificationWalk<'a> {
    pub(super) fn new(
        root: &'a Root,
        progress: &'a mut dyn FnMut(VerificationProgress) -> Result<()>,
    ) -> Self {
        Self {
            root,
            report: VerificationReport::default(),
            runs: BTreeSet::new(),
            progress,
            done: 0,
            total: 0,
        }
    }

    /// Sets how many steps there are.
    pub(super) fn expect(&mut self, total: u64) {
        self.total = total;
    }

    /// Counts a step.
    pub(super) fn step(&mut self) -> Result<()> {
        self.done += 1;
        self.show()
    }

    /// Counts an object that was read.
    pub(super) fn count(&mut self) -> Result<()> {
        self.report.objects += 1;
        self.show()
    }

    fn show(&mut self) -> Result<()> {
        (self.progress)(VerificationProgress {
            done: self.done,
            total: self.total,
            objects: self.report.objects,
        })
    }

    /// Adds a damaged object to the report.
    pub(super) fn found(&mut self, object: impl Into<String>, problem: impl Into<String>) {
        self.report.damage.push(Damage {
            object: object.into(),
            problem: problem.into(),
        });
    }

    /// Adds an error to the report if it is about the content of an object. Other errors, such as a
    /// failing disk, end the verification.
    pub(super) fn found_error(&mut self, object: &str, error: Error) -> Result<()> {
        if !is_of_object(&error) {
            return Err(error);
        }
        self.found(object, error.to_string());
        Ok(())
    }

    /// Counts an object, and returns the content that was read, or none if the object is damaged.
    pub(super) fn content<T>(&mut self, object: &str, read: Result<T>) -> Result<Option<T>> {
        self.count()?;
        match read {
            Ok(content) => Ok(Some(content)),
            Err(error) => self.found_error(object, error).map(|()| None),
        }
    }

    /// Returns whether a host is removing an epoch, or none of its objects in force is left.
    pub(super) fn is_removed(&self, epoch: Epoch) -> Result<bool> {
        Ok(!self.root.log.has_whole(epoch)?)
    }

    /// Returns the report.
    ///
    /// # Errors
    /// `InvalidState` if there is damage and a rewind took epochs back since `rewinds` were read.
    pub(super) fn finish(self, rewinds: &Rewinds) -> Result<VerificationReport> {
        let newest = rewinds.newest_of(Epoch(i64::MAX));
        if !self.report.damage.is_empty() && self.root.log.newest_rewind()? != newest {
            let text = "a command took epochs back while they were read: verify the root again";
            return Err(Error::new(ErrorKind::InvalidState, text).path(self.root.path()));
        }
        Ok(self.report)
    }
}

/// Whether an error is about the content of an object.
pub(super) fn is_of_object(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Restore
            | ErrorKind::FormatVersion
            | ErrorKind::Serialization
            | ErrorKind::StateMismatch
    )
}
