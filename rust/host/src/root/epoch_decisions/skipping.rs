//! Records the epochs in which no operator ran.

use std::collections::HashMap;

use holdfast_core::Result;

use super::{DecisionAsker, EpochDecisions};
use crate::protocol::{Digest, Epoch, EpochDecision, Violation};
use crate::root::epoch_log::EpochLog;
use crate::root::names;
use crate::root::objects::Objects;

/// Epochs without objects that follow each other, up to the one to decide, and what the root has
/// beside them.
///
/// A function of `foreachBatch` may call no operator for days. So the root is listed once for all
/// of these epochs. If other hosts record them meanwhile and go on, each record that they made is
/// found, and the ones that they trimmed are made again, with the same content.
pub(super) struct Gap {
    /// Whether an epoch after the gap has an object or a decision.
    has_later_files: bool,
    /// The folders below `removed/` that hold objects of an epoch.
    removed: HashMap<Epoch, Vec<String>>,
}

impl Gap {
    /// Lists what the root has beside the gap that ends with `last`.
    pub(super) fn before(log: &EpochLog, objects: &Objects, last: Epoch) -> Result<Self> {
        let mut removed: HashMap<Epoch, Vec<String>> = HashMap::new();
        for run in objects.folders(names::REMOVED)? {
            let folder = format!("{}/{run}/{}", names::REMOVED, names::LOG);
            for epoch in objects.folders(&folder)? {
                if let Ok(number) = epoch.parse() {
                    let folders = removed.entry(Epoch(number)).or_default();
                    folders.push(format!("{folder}/{epoch}"));
                }
            }
        }
        Ok(Self {
            has_later_files: log.has_later_files(last)?,
            removed,
        })
    }
}

impl EpochDecisions {
    /// Records that no operator ran in an epoch of the gap. `previous`: the decision of the epoch
    /// before.
    ///
    /// # Errors
    /// `StateMismatch` if an operator ran. Spark then read the output of its tasks only in part, or
    /// not at all, and the state would lack the epoch's rows. `Restore` if the log has files of a
    /// later epoch: then the objects of this one were lost.
    pub(super) fn skip(
        &self,
        asking: DecisionAsker<'_>,
        epoch: Epoch,
        previous: Option<&EpochDecision>,
        (gap, partitions): (&Gap, u32),
    ) -> Result<EpochDecision> {
        loop {
            // An object may have been put, or another host may have decided.
            if let Some(decision) = self.decide(asking, epoch, partitions)? {
                return Ok(decision);
            }
            if gap.has_later_files {
                // Another host may have recorded the epoch since, and then a later one.
                let rewind = self.rewind_of(asking, epoch)?.newest_of(epoch);
                if let Some(decision) = self.recorded_after(epoch, rewind)? {
                    return Ok(decision);
                }
                return Err(self.objects.violation(Violation::LogLost {
                    epoch,
                    lost: names::epoch(epoch),
                }));
            }
            if let Some(ran) = asking.previous.ran.filter(|ran| ran.epoch <= epoch) {
                return Err(self.objects.violation(Violation::NotEvaluated {
                    epoch,
                    operator: ran.operator.clone(),
                }));
            }
            self.check_was_not_computed(epoch, gap)?;
            let rewind = self.rewind_of(asking, epoch)?.newest_of(epoch);
            let offsets = self.spark.offsets(epoch)?;
            let offsets = offsets.map_or(Digest::ZERO, |file| file.digest);
            self.spark.sync_skipped_offsets(epoch)?;
            let skipped = EpochDecision::skipped(epoch, rewind, offsets, previous);
            if let Some(decision) = self.record(skipped)? {
                log::warn!(
                    "{}: no operator ran in epoch {epoch}, so the state does not have its rows \
                     (foreachBatch returned early?)",
                    self.objects.path().display()
                );
                return Ok(decision);
            }
        }
    }

    /// Checks that an epoch without objects was not computed before `holdfast rewind` or `holdfast
    /// epoch drop` removed its objects.
    ///
    /// If it was computed, the sink may already have the epoch and skip it. Then no operator runs,
    /// and the state would lack the epoch's rows. The epoch's folder in the log is searched, too,
    /// because an interrupted command leaves objects there.
    fn check_was_not_computed(&self, epoch: Epoch, gap: &Gap) -> Result<()> {
        let in_log = names::epoch(epoch);
        let removed = gap.removed.get(&epoch).into_iter().flatten();
        for folder in std::iter::once(&in_log).chain(removed) {
            let files = self.objects.list(folder)?;
            if let Some(object) = files.iter().find_map(|file| names::parse_head(file)) {
                return Err(self.objects.violation(Violation::NotEvaluated {
                    epoch,
                    operator: object.operator,
                }));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log;
    use crate::protocol::RunNumber;
    use crate::root::testing::{ConcurrentChange, Fault, FaultyStore};

    #[test]
    fn an_epoch_that_another_host_records_as_skipped_meanwhile_is_not_lost() {
        let store = Arc::new(FaultyStore::new(Fault::None));
        let root = store.root();
        let skipped = |epoch| EpochDecision::skipped(epoch, RunNumber(0), Digest::ZERO, None);
        let put = |epoch| {
            let json = log::encode_decision(&skipped(epoch)).expect("encodes");
            ConcurrentChange::Puts(names::decision(epoch, RunNumber(0)), json)
        };
        // This host has found no objects of epoch 1, and lists the later epochs.
        store.before(names::LOG, vec![put(Epoch(1)), put(Epoch(2))]);
        let gap = Gap::before(&root.log, &root.objects, Epoch(1)).expect("lists");
        assert!(gap.has_later_files);
        let skip = |epoch| {
            root.decisions
                .skip(DecisionAsker::default(), epoch, None, (&gap, 1))
        };
        let found = skip(Epoch(1)).expect("another host has decided");
        assert_eq!(found, skipped(Epoch(1)));
        // Without a record, the later epoch proves that this one was lost.
        let lost = skip(Epoch(0)).expect_err("lost");
        assert_eq!(lost.kind(), holdfast_core::ErrorKind::Restore, "{lost}");
    }

    #[test]
    fn the_objects_of_earlier_commands_are_listed_once_for_all_skipped_epochs() {
        let requests_with = |commands: u64| {
            let store = Arc::new(FaultyStore::new(Fault::None));
            let root = store.root();
            for run in 1..=commands {
                let name = format!("{}/x", names::epoch(Epoch(1_000)));
                let name = names::removed(RunNumber(run), &name);
                root.objects.put_absent(&name, b"x").expect("puts");
            }
            let decide = |epoch| {
                root.decisions
                    .read_or_decide(DecisionAsker::default(), epoch, 1)
                    .expect("no operator ran")
            };
            decide(Epoch(0));
            let before = store.requests();
            decide(Epoch(20));
            store.requests() - before
        };
        assert!(requests_with(10) <= requests_with(0) + 10);
    }
}
