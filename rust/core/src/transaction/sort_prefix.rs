//! Keys as numbers, for sorting.

use std::cmp::Ordering;

/// Fewer entries are sorted by comparisons alone: the tables of a radix sort would cost more.
const RADIX_FROM: usize = 2048;

/// Bits of a digit: the counts of one pass stay in the processor's first cache.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 3;
const DIGIT_VALUES: usize = 1 << DIGIT_BITS;

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

/// Sorts entries by `compare`, which must compare their prefixes first.
///
/// Many entries are sorted by the first bits in which their prefixes differ, without comparisons.
/// Then `compare` orders those that are equal in these bits.
pub(crate) fn sort_by_prefix<T: Copy>(
    entries: &mut [T],
    prefix: impl Fn(&T) -> u64,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    if entries.is_sorted_by(|a, b| compare(a, b).is_le()) {
        return;
    }
    let differing = match entries {
        [first, others @ ..] if others.len() + 1 >= RADIX_FROM => {
            let first = prefix(first);
            others
                .iter()
                .fold(0, |bits, entry| bits | (prefix(entry) ^ first))
        }
        _ => 0,
    };
    if differing == 0 {
        entries.sort_unstable_by(compare);
        return;
    }
    let shift = (u64::BITS - differing.leading_zeros()).saturating_sub(DIGITS as u32 * DIGIT_BITS);
    radix_sort(entries, |entry| prefix(entry) >> shift);
    for equal in entries.chunk_by_mut(|a, b| prefix(a) >> shift == prefix(b) >> shift) {
        equal.sort_unstable_by(&compare);
    }
}

/// Sorts entries by the lowest `DIGITS` digits of their numbers, the last digit first. Each pass
/// keeps the order of equal digits.
fn radix_sort<T: Copy>(entries: &mut [T], number: impl Fn(&T) -> u64) {
    let digit =
        |entry: &T, n: usize| (number(entry) >> (n as u32 * DIGIT_BITS)) as usize % DIGIT_VALUES;
    let mut counts = [[0; DIGIT_VALUES]; DIGITS];
    for entry in entries.iter() {
        for (n, counts) in counts.iter_mut().enumerate() {
            counts[digit(entry, n)] += 1;
        }
    }
    let mut other = entries.to_vec();
    let (mut from, mut to) = (entries, other.as_mut_slice());
    let mut is_swapped = false;
    for (n, places) in counts.iter_mut().enumerate() {
        if places.contains(&(from.len() as u32)) {
            continue;
        }
        let mut next = 0;
        for place in places.iter_mut() {
            next += std::mem::replace(place, next);
        }
        for entry in from.iter() {
            let place = &mut places[digit(entry, n)];
            to[*place as usize] = *entry;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
        is_swapped = !is_swapped;
    }
    if is_swapped {
        to.copy_from_slice(from);
    }
}

/// Returns the numbers of `count` keys in key order; of equal keys only the greatest number.
///
/// The prefixes of the sort begin after the bytes that all keys share: keys like `customer-000017`
/// differ late.
pub(crate) fn last_of_each_key<'a>(count: usize, key: impl Fn(u32) -> &'a [u8]) -> Vec<u32> {
    let shared = shared_prefix((0..count as u32).map(&key));
    let mut order: Vec<(u64, u32)> = (0..count as u32)
        .map(|n| (sort_prefix(&key(n)[shared..]), n))
        .collect();
    let by_key = |a: &(u64, u32), b: &(u64, u32)| {
        a.0.cmp(&b.0)
            .then_with(|| key(a.1)[shared..].cmp(&key(b.1)[shared..]))
    };
    // The greatest number is first, and remains.
    sort_by_prefix(
        &mut order,
        |entry| entry.0,
        |a, b| by_key(a, b).then(b.1.cmp(&a.1)),
    );
    order.dedup_by(|b, a| by_key(a, b).is_eq());
    order.into_iter().map(|(_, n)| n).collect()
}

/// How many leading bytes all keys share.
fn shared_prefix<'a>(mut keys: impl Iterator<Item = &'a [u8]>) -> usize {
    let Some(mut shared) = keys.next() else {
        return 0;
    };
    for key in keys {
        let same = key.iter().zip(shared).take_while(|(a, b)| a == b).count();
        shared = &shared[..same];
    }
    shared.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Keys that differ in their first bytes, in late bytes, rarely or not at all. There are enough
    /// of them for a radix sort in about half of the cases.
    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let shared = prop::collection::vec(any::<u8>(), 0..10);
        let rests = prop_oneof![
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..4_000),
            prop::collection::vec(prop::collection::vec(0u8..2, 0..12), 0..4_000),
            prop::collection::vec("[0-9]{6}".prop_map(String::into_bytes), 0..4_000),
            prop::collection::vec(Just(Vec::new()), 2_000..3_000),
            (0u32..4_000)
                .prop_map(|count| { (0..count).rev().map(|n| n.to_be_bytes().to_vec()).collect() }),
        ];
        (shared, rests).prop_map(|(shared, rests): (Vec<u8>, Vec<Vec<u8>>)| {
            rests
                .iter()
                .map(|rest| [&shared[..], rest].concat())
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn entries_are_sorted_as_by_comparisons(keys in keys()) {
            let compare = |a: &(u64, u32), b: &(u64, u32)| {
                keys[a.1 as usize].cmp(&keys[b.1 as usize]).then(a.1.cmp(&b.1))
            };
            let mut entries: Vec<_> =
                keys.iter().enumerate().map(|(n, key)| (sort_prefix(key), n as u32)).collect();
            let mut sorted = entries.clone();
            sorted.sort_by(compare);
            sort_by_prefix(&mut entries, |entry| entry.0, |a, b| a.0.cmp(&b.0).then(compare(a, b)));
            prop_assert_eq!(entries, sorted);
        }

        #[test]
        fn last_number_of_each_key_remains(keys in keys()) {
            let last: BTreeMap<&[u8], u32> =
                keys.iter().enumerate().map(|(n, key)| (key.as_slice(), n as u32)).collect();
            prop_assert_eq!(last_of_each_key(keys.len(), |n| &keys[n as usize]),
                last.into_values().collect::<Vec<_>>());
        }
    }
}
