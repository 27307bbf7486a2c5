//! The progress of an epoch, from its decision or from the objects that are staged so far.

use std::collections::BTreeMap;

use holdfast_core::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::protocol::{Counts, Epoch, OperatorName, PartitionDecision, RunNumber};
use crate::root::state_root::Root;

/// The progress of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EpochProgress {
    /// The epoch.
    pub epoch: Epoch,
    /// Its status.
    pub status: EpochStatus,
    /// The run that decided it, or the newest one that has staged objects. None if it was skipped.
    pub run: Option<RunNumber>,
    /// Its operators.
    pub operators: BTreeMap<OperatorName, OperatorProgress>,
}

/// The status of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EpochStatus {
    /// Tasks have staged objects; no decision is recorded yet.
    Staged,
    /// The decision is recorded.
    Decided,
    /// No operator ran: the state does not have the epoch's rows.
    Skipped,
}

/// The rows and stream times of an operator in an epoch, over all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OperatorProgress {
    /// How many partitions have staged; of a skipped epoch, how many have a state.
    pub partitions: u32,
    /// The rows.
    #[serde(flatten)]
    pub counts: Counts,
    /// Each store's earliest stream time over the partitions that have one, in microseconds.
    pub stream_times: BTreeMap<String, i64>,
}

impl OperatorProgress {
    fn add(&mut self, partition: &PartitionDecision) {
        self.partitions += 1;
        self.counts += partition.counts;
        for (store, time) in &partition.stream_times {
            let earliest = self.stream_times.entry(store.clone()).or_insert(*time);
            *earliest = (*earliest).min(*time);
        }
    }
}

impl Root {
    /// Returns the progress of the newest `last` epochs of the log, oldest first, as a JSON array.
    ///
    /// `epoch`: if set, only this epoch.
    ///
    /// # Errors
    /// As [`Root::progress`].
    pub fn progress_json(&self, epoch: Option<Epoch>, last: usize) -> Result<String> {
        let mut epochs = match epoch {
            Some(epoch) => vec![epoch],
            None => self.log.epochs()?,
        };
        epochs.sort_unstable();
        let mut progress = Vec::new();
        for epoch in epochs.iter().skip(epochs.len().saturating_sub(last)) {
            progress.extend(self.progress(*epoch)?);
        }
        serde_json::to_string(&progress).map_err(|error| {
            let text = format!("progress of epochs: {error}");
            Error::new(ErrorKind::Serialization, text)
        })
    }

    /// Returns the progress of an epoch; none if it has neither a decision nor a staged object.
    ///
    /// # Errors
    /// `Restore` for an object that cannot be read, `Io` if the disk fails.
    pub fn progress(&self, epoch: Epoch) -> Result<Option<EpochProgress>> {
        let mut operators: BTreeMap<OperatorName, OperatorProgress> = BTreeMap::new();
        if let Some(decision) = self.decisions.recorded(epoch)? {
            for (operator, partitions) in &decision.operators {
                let progress = operators.entry(operator.clone()).or_default();
                partitions.iter().for_each(|one| progress.add(one));
            }
            let status = match decision.run {
                Some(_) => EpochStatus::Decided,
                None => EpochStatus::Skipped,
            };
            return Ok(Some(EpochProgress {
                epoch,
                status,
                run: decision.run,
                operators,
            }));
        }
        let mut heads = self.log.files_in_force(epoch)?.heads;
        let Some(run) = heads.iter().map(|head| head.run).max() else {
            return Ok(None);
        };
        heads.retain(|head| head.run == run);
        for header in self.log.headers(epoch, &heads)?.into_iter().flatten() {
            let progress = operators.entry(header.operator.clone()).or_default();
            progress.add(&header.decision());
        }
        Ok(Some(EpochProgress {
            epoch,
            status: EpochStatus::Staged,
            run: Some(run),
            operators,
        }))
    }
}
