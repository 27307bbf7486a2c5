//! The first bytes of a key as a number.

/// The first 16 bytes of a key as a number; a shorter key is followed by zeros. If the numbers of
/// two keys differ, they have the order of the keys.
///
/// A sort compares these numbers first. So it tells most keys apart without a read of them.
#[must_use]
pub fn first_bytes(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk() {
        return u128::from_be_bytes(*first);
    }
    let mut bytes = [0; 16];
    bytes[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn different_numbers_have_the_order_of_the_keys(
            a in prop::collection::vec(0..2_u8, 0..20), b in prop::collection::vec(0..2_u8, 0..20),
        ) {
            let order = first_bytes(&a).cmp(&first_bytes(&b));
            prop_assert!(order.is_eq() || order == a.cmp(&b));
        }
    }
}
