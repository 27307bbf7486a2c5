//! The result of a committed epoch for one partition, and its commit to a database.

use holdfast_core::{Database, Error, ErrorKind, Result, Timestamp, Transaction, VersionRow};

use crate::log::Records;
use crate::partition::local::position;
use crate::protocol::{
    Digest, Epoch, EpochDecision, ObjectId, OperatorName, PartitionDecision, PartitionId,
    RunNumber, Violation,
};
use crate::root::{Head, Root};

/// The result of a committed epoch for one partition.
pub struct DecidedEpoch {
    operator: OperatorName,
    partition: PartitionId,
    epoch: Epoch,
    /// None if the decision does not name the operator.
    decided: Option<PartitionDecision>,
    /// None if the decision does not name the operator, or if no operator ran in the epoch.
    head: Option<Head>,
}

/// The size of an epoch that was applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppliedEpoch {
    /// The records of its object.
    pub records: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
}

impl DecidedEpoch {
    /// Reads the object that decided an epoch, and checks that it is the one that was recorded.
    ///
    /// # Errors
    /// `Restore` if the object is missing or damaged, or is not the recorded one.
    pub fn read(
        root: &Root,
        operator: &OperatorName,
        partition: PartitionId,
        decision: &EpochDecision,
    ) -> Result<Self> {
        let decided = decision.of(operator, partition).cloned();
        let head = match (&decided, decision.run) {
            (Some(decided), Some(run)) => {
                let object = ObjectId {
                    operator: operator.clone(),
                    partition,
                    run,
                };
                Some(read_head(root, decision.epoch, object, decided)?)
            }
            _ => None,
        };
        Ok(Self {
            operator: operator.clone(),
            partition,
            epoch: decision.epoch,
            decided,
            head,
        })
    }

    /// Returns the epoch's result; none if the decision does not name the operator.
    pub fn decided(&self) -> Option<&PartitionDecision> {
        self.decided.as_ref()
    }

    /// Calls `visit` with the records of the epoch's object, in their order, one chunk after
    /// another.
    ///
    /// # Errors
    /// `Restore` for a chunk that is missing or damaged; those of `visit`.
    pub fn for_each_records(
        &self,
        root: &Root,
        visit: &mut dyn FnMut(&Records) -> Result<()>,
    ) -> Result<()> {
        match &self.head {
            Some(head) => for_each_records(root, head, visit),
            None => Ok(()),
        }
    }

    /// Commits the epoch to a database that is at the previous epoch.
    ///
    /// # Errors
    /// `Restore` if the database has another state than the epoch began with, or if the log cannot
    /// be read; the error of [`not_evaluated`] if an earlier decision names the operator and this
    /// one does not.
    pub fn apply(self, root: &Root, db: &Database, query_id: &str) -> Result<AppliedEpoch> {
        let Self {
            operator,
            partition,
            epoch,
            decided,
            head,
        } = self;
        let base = position::chain(db)?;
        let commit = |chain| position::commit(query_id, partition, epoch, chain);
        let Some(decided) = decided else {
            if base != Digest::ZERO {
                return Err(not_evaluated(root, &operator, epoch));
            }
            // The operator begins later.
            db.commit_transaction(db.begin()?, commit(base))?;
            return Ok(AppliedEpoch::default());
        };
        if decided.base != base {
            let run = head.map_or(RunNumber(0), |head| head.header.run);
            return Err(root.violation(Violation::BrokenChain {
                object: ObjectId {
                    operator,
                    partition,
                    run,
                },
                epoch,
            }));
        }
        let mut tx = db.begin()?;
        let mut applied = AppliedEpoch::default();
        if let Some(head) = &head {
            applied = AppliedEpoch {
                records: head.header.records,
                bytes: apply_object(root, db, &mut tx, head)?,
            };
        }
        db.commit_transaction(tx, commit(decided.chain()))?;
        Ok(applied)
    }
}

fn read_head(
    root: &Root,
    epoch: Epoch,
    object: ObjectId,
    decided: &PartitionDecision,
) -> Result<Head> {
    match root.log.head(epoch, &object)? {
        Some(head) if head.header.decision() == *decided => Ok(head),
        Some(_) => Err(root.violation(Violation::BrokenChain { object, epoch })),
        None => Err(root.violation(Violation::ObjectMissing { object, epoch })),
    }
}

/// Returns the error for an epoch whose decision has no result of an operator, although that
/// operator had begun by then.
pub fn not_evaluated(root: &Root, operator: &OperatorName, epoch: Epoch) -> Error {
    let violation = match root.log.has_later(epoch, |other| other == operator) {
        Ok(true) => Violation::LogLost {
            epoch,
            lost: format!("the part of operator {operator}"),
        },
        Ok(false) => Violation::NotEvaluated {
            epoch,
            operator: operator.clone(),
        },
        Err(error) => return error,
    };
    root.violation(violation)
}

/// Stages everything in an object of the log; returns the bytes of its keys and values.
///
/// # Errors
/// `Restore` for an object that cannot be read.
pub fn apply_object(root: &Root, db: &Database, tx: &mut Transaction, head: &Head) -> Result<u64> {
    let mut bytes = 0;
    for_each_records(root, head, &mut |records| {
        bytes += stage_records(db, tx, records)?;
        Ok(())
    })?;
    for (store, time) in &head.header.stream_times {
        db.apply_changes(store, tx, &[], Some(Timestamp(*time)))?;
    }
    Ok(bytes)
}

fn for_each_records(
    root: &Root,
    head: &Head,
    visit: &mut dyn FnMut(&Records) -> Result<()>,
) -> Result<()> {
    for chunk in &head.header.chunks {
        visit(&root.log.chunk(&head.header, chunk)?)?;
    }
    visit(&head.records)
}

/// Stages records unconditionally: they were accepted when they were written, so their order does
/// not matter. Returns the bytes of their keys and values.
fn stage_records(db: &Database, tx: &mut Transaction, records: &Records) -> Result<u64> {
    let mut bytes = 0;
    let mut rows = Vec::new();
    let mut current: Option<&str> = None;
    let mut timed = false;
    let flush =
        |store: Option<&str>, rows: &mut Vec<VersionRow<'_>>, tx: &mut Transaction| -> Result<()> {
            if let Some(store) = store {
                db.apply_changes(store, tx, rows, None)?;
            }
            rows.clear();
            Ok(())
        };
    for record in records.iter() {
        bytes += (record.key.len() + record.value.map_or(0, <[u8]>::len)) as u64;
        if current != Some(record.store) {
            flush(current, &mut rows, tx)?;
            current = Some(record.store);
            timed = db
                .stores()
                .any(|spec| spec.name == record.store && spec.kind.restores_with_times());
        }
        let timestamp = match record.timestamp {
            Some(timestamp) => timestamp,
            None if timed => {
                let text =
                    "a log record of a store with times has no time: restore log/ from a backup";
                return Err(Error::new(ErrorKind::Restore, text).store(record.store));
            }
            None => Timestamp(0),
        };
        rows.push(VersionRow {
            key: record.key,
            value: record.value,
            timestamp,
        });
    }
    flush(current, &mut rows, tx)?;
    Ok(bytes)
}
