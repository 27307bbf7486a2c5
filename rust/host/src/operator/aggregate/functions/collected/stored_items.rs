//! Layout and reads of a group's individual values, which have a store of their own.
//!
//! ```text
//! key part of the group's key | the group's start, 8 bytes, sign flipped
//!         | number of the column, 2 bytes | order | value  →  count
//! order   for a list, the row's time, or a running number if rows have no time (8 bytes, sign
//!         flipped); for other functions, empty
//! count   8 bytes, big-endian; 1 except in a list
//! ```

use holdfast_core::store::key_part::push_key_part;
use holdfast_core::store::windowed::ordered;
use holdfast_core::{Result, Step};

use crate::operator::aggregate::functions::accumulator::Access;
use crate::operator::aggregate::groups::Groups;

/// A stored value.
pub struct StoredItem {
    /// The part of its key after the prefix: order and value.
    pub rest: Vec<u8>,
    /// In a list, how often the value occurs at its place in the order; otherwise 1.
    pub count: u64,
}

/// Appends the key prefix of a group's items for one column of the result.
pub fn push_prefix(column: u16, group: usize, groups: &Groups, out: &mut Vec<u8>) {
    push_key_part(groups.key(group), out);
    out.extend_from_slice(&ordered(groups.start(group)));
    out.extend_from_slice(&column.to_be_bytes());
}

/// Reads the items whose keys start with a prefix, in the order of the keys.
///
/// # Errors
/// Those of the store.
pub fn read(prefix: &[u8], access: &mut Access<'_>) -> Result<Vec<StoredItem>> {
    let mut items = Vec::new();
    access
        .items
        .prefix_scan(access.tx, prefix, None, false)?
        .for_each(&mut |key, count| {
            items.push(StoredItem {
                rest: key.get(prefix.len()..).unwrap_or_default().to_vec(),
                count: decode_count(count),
            });
            Step::Next
        })?;
    Ok(items)
}

/// Decodes an item's count. Bytes that are too short for a count mean 1.
pub fn decode_count(count: &[u8]) -> u64 {
    count
        .first_chunk()
        .map_or(1, |count| u64::from_be_bytes(*count))
}
