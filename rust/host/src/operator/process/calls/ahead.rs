//! `get_ahead(keys)`: what the first of many keys have. How large that is nobody knows before, so
//! the answer ends where it is as much as one message should have, and the worker asks for the
//! other keys again.

use holdfast_core::column::Places;
use holdfast_core::{Result, Stamped};

use super::Reply;
use crate::operator::batch::BATCH_BYTES;

/// Keys that are read at once: few at first, so that little is read in vain where values are large;
/// then twice as many each time.
const FEWEST: usize = 16;

/// As `FEWEST`, at most.
const MOST: usize = 1024;

/// What the first keys have, as many as a message takes; of the first one in any case. `get` reads
/// some keys, and says for each, in any order, what it has.
pub fn reply<'k>(
    keys: &[&'k [u8]],
    mut get: impl FnMut(&[&'k [u8]], &mut dyn FnMut(usize, Option<Stamped<'_>>)) -> Result<()>,
) -> Result<Reply> {
    let mut places = Places::new(keys.len());
    let (mut room, mut start, mut end, mut count) = (BATCH_BYTES, 0, 0, FEWEST);
    while end == start && start < keys.len() {
        let read = &keys[start..keys.len().min(start + count)];
        end = start + read.len();
        get(read, &mut |n, found| {
            let (row, size) = (start + n, found.map_or(0, |found| found.value.len()));
            if row == 0 || size <= room {
                room = room.saturating_sub(size);
                places.put(row, found);
            } else {
                end = end.min(row);
            }
        })?;
        start += read.len();
        count = MOST.min(2 * count);
    }
    places.truncate(end);
    Ok(Reply::Batch(places.finish_stamped()?))
}
