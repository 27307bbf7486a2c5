//! Keys as numbers, for sorting.

/// The first 8 bytes of a key as a number, which decides most comparisons of a sort.
pub(crate) fn sort_prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}
