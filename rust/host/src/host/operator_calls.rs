//! Which call of an operator serves an epoch, and which task attempts have opened a session.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::host::request::Request;
use crate::protocol::{Attempt, Epoch, OperatorName, PartitionId, RunNumber};

/// The newest call of each operator of each root.
#[derive(Default)]
pub struct OperatorCalls {
    newest: Mutex<HashMap<(PathBuf, OperatorName), OperatorCall>>,
}

/// A call of an operator in one epoch, and the attempts that have opened a session of it.
struct OperatorCall {
    run: RunNumber,
    epoch: Epoch,
    id: String,
    attempts: HashSet<(PartitionId, Attempt)>,
    /// The epoch of the previous call, if it was in the same run.
    before: Option<Epoch>,
}

impl OperatorCall {
    fn new(request: &Request, run: RunNumber, epoch: Epoch) -> Self {
        Self {
            run,
            epoch,
            id: request.instance.clone(),
            attempts: HashSet::new(),
            before: None,
        }
    }
}

impl OperatorCalls {
    /// Returns an operator of which a session was opened in this epoch of this run: `preferred` if
    /// it is one of several.
    pub fn opened(
        &self,
        root: &Path,
        run: RunNumber,
        epoch: Epoch,
        preferred: &OperatorName,
    ) -> Option<OperatorName> {
        let calls = self.newest.lock();
        let opened = calls.iter().filter(|((of, _), call)| {
            of == root && call.run == run && (call.epoch == epoch || call.before == Some(epoch))
        });
        opened
            .map(|((_, operator), _)| operator)
            .min_by_key(|operator| (*operator != preferred, *operator))
            .cloned()
    }

    /// Forgets the calls of a root that is gone. The runs of a new root begin with 1 again.
    pub fn forget(&self, root: &Path) {
        self.newest.lock().retain(|(of, _), _| of != root);
    }

    /// Checks that only one call of an operator serves an epoch, and that each task attempt opens
    /// at most one session per partition.
    ///
    /// Two calls of one name would stage objects under the same names. If a coalesce makes one task
    /// do the work of two, the task opens two sessions for one partition, because both use its
    /// partition number. The second session would find the object that the first one staged.
    ///
    /// # Errors
    /// `InvalidState` names the operator and the remedy.
    pub fn register(
        &self,
        root: &Path,
        request: &Request,
        run: RunNumber,
        epoch: Epoch,
    ) -> Result<()> {
        let mut calls = self.newest.lock();
        let (operator, partition, attempt) =
            (&request.operator.name, request.partition, request.attempt);
        let newest = calls
            .entry((root.to_owned(), operator.clone()))
            .or_insert_with(|| OperatorCall::new(request, run, epoch));
        if (newest.run, newest.epoch) > (run, epoch) {
            // A stale task of an older epoch must not replace the newest epoch's call.
            return Ok(());
        }
        if (newest.run, newest.epoch) < (run, epoch) {
            let before = (newest.run == run).then_some(newest.epoch);
            *newest = OperatorCall::new(request, run, epoch);
            newest.before = before;
        }
        if newest.id != request.instance {
            return Err(Error::new(
                ErrorKind::InvalidState,
                format!(
                    "two operators of this query are named {operator}, so epoch {epoch} would mix \
                     their state: give each its own name=..., and call an operator once in an \
                     epoch (keep its DataFrame to use it twice)"
                ),
            ));
        }
        if !newest.attempts.insert((partition, attempt)) {
            return Err(Error::new(
                ErrorKind::InvalidState,
                format!(
                    "operator {operator}, epoch {epoch}: one task (attempt {attempt}) computes \
                     partition {partition} twice, so another partition is not computed: a \
                     coalesce above the operator runs several of its tasks in one. Use \
                     repartition() instead, or put one between them"
                ),
            ));
        }
        Ok(())
    }
}
