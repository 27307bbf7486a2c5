//! The epoch after the newest final one, as far as it is staged.

use holdfast_core::{Database, Result, Transaction};

use super::decided_epoch::apply_object;
use crate::protocol::{Digest, Epoch, OperatorName, PartitionId};
use crate::root::Root;

/// Stages what the newest run has put of the epoch after `epoch` into a reader's transaction, which
/// is never committed. `chain`: the partition's chain after `epoch`.
///
/// Without such an object, or with one that was computed from another state, nothing is staged.
///
/// # Errors
/// `Restore` for an object that cannot be read.
pub fn stage_next(
    root: &Root,
    (operator, partition): (&OperatorName, PartitionId),
    (epoch, chain): (Epoch, Digest),
    db: &Database,
    transaction: &mut Transaction,
) -> Result<()> {
    let next = epoch.next();
    let heads = root.log.files_in_force(next)?.heads.into_iter();
    let newest = heads
        .filter(|object| object.operator == *operator && object.partition == partition)
        .max_by_key(|object| object.run);
    let Some(object) = newest else {
        return Ok(());
    };
    // A rewind may have removed it since.
    if let Some(head) = root.log.head(next, &object)?
        && head.header.decision().base == chain
    {
        apply_object(root, db, transaction, &head)?;
    }
    Ok(())
}
