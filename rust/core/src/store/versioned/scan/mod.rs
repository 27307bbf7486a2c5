//! The scans of a versioned store, one type for each order of reads.

pub(super) mod as_of;
pub(super) mod backward;
pub(super) mod between;
pub(super) mod latest;

use crate::error::Result;
use crate::store::versioned::layout;
use crate::transaction::{Scan, Step};

/// Calls `visit` with the key part, the begin and the row of each row of `versions`, as
/// [`Scan::for_each`] does.
///
/// # Errors
/// `StoreCorrupted` for a row that Holdfast does not write.
fn for_each_version(
    scan: &mut Scan,
    mut visit: impl FnMut(&[u8], i64, &[u8]) -> Step,
) -> Result<bool> {
    let mut damaged = Ok(());
    let paused = scan.for_each(
        &mut |row_key, row| match layout::stored_version(row_key, row) {
            Ok((part, begin, row)) => visit(part, begin, row),
            Err(error) => {
                damaged = Err(error);
                Step::Pause
            }
        },
    )?;
    damaged.map(|()| paused)
}
