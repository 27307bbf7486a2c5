//! Puts a session's far-future rows into the log before its head, and publishes those of the valid
//! head.

use holdfast_core::Result;

use crate::host::request::{Request, StageReport};
use crate::operator::input::FarFutureFile;
use crate::protocol::ObjectId;
use crate::root::{ChunkName, StagedRows};
use crate::session::state::PersistentState;

/// Puts a session's far-future rows into the log under the name `chunk`; none if there are none.
pub fn put_far_future_rows(
    state: &PersistentState,
    chunk: &ChunkName,
    rows: FarFutureFile,
) -> Result<Option<StagedRows>> {
    let file = rows.finish()?;
    file.map(|file| state.root.far_future.stage(chunk, file))
        .transpose()
}

/// Publishes the far-future rows of the valid head, and logs where they are.
///
/// Call it once the session has staged. An attempt that adopts a head publishes the head's rows,
/// because the attempt that put the head may have ended before it published them.
pub fn publish_far_future_rows(
    request: &Request,
    state: &PersistentState,
    (staged, report): (Option<&StagedRows>, &StageReport),
) -> Result<()> {
    let PersistentState { root, run, query } = state;
    let epoch = query.epoch;
    // An older run may have published rows that this run's head does not have.
    if staged.is_none() && !report.adopted && !root.log.had(*run, epoch)? {
        return Ok(());
    }
    let object = ObjectId {
        operator: request.operator.name.clone(),
        partition: request.partition,
        run: *run,
    };
    let published = root.far_future.publish((epoch, &object), staged)?;
    if let Some(published) = published {
        log::warn!(
            "operator {}, partition {}, epoch {epoch}: {} rows are dated more than max_ahead past \
             the micro-batch; they are stored in {}",
            object.operator,
            object.partition,
            published.rows,
            published.path
        );
    }
    Ok(())
}
