//! `get_ahead(keys)`: the values of as many leading keys as fit into one message.
//!
//! The size of the values is not known in advance. The answer ends when it has as many bytes as a
//! batch may have (`batch_size.rs`). The worker then asks for the remaining keys in another call.

use holdfast_core::column::Places;
use holdfast_core::{Result, Stamped};

use super::reply::Reply;
use crate::operator::batch_size::BATCH_BYTES;

/// The number of keys in the first read: few, because a message may have room for only a few large
/// values. The number doubles with each read.
const FEWEST: usize = 16;

/// The maximum number of keys in one read.
const MOST: usize = 1024;

/// Returns the values of the first keys, as many as fit into a message, but at least one. `get`
/// reads some keys and passes on the value of each, in any order.
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
