//! Ranges of keys as bounds of a scan.

use crate::table::Bounds;

/// The bounds of `[from, to]`, both inclusive. `None` is unbounded; `from > to` is empty.
pub(in crate::store) fn between(from: Option<&[u8]>, to: Option<&[u8]>) -> Bounds {
    let lower = from.map(<[u8]>::to_vec);
    let upper = to.map(|to| [to, &[0]].concat());
    // RocksDB's behaviour is undefined for an upper bound below the lower one.
    let upper = match (&lower, upper) {
        (Some(lower), Some(upper)) if upper < *lower => Some(lower.clone()),
        (_, upper) => upper,
    };
    Bounds {
        lower,
        upper,
        within_key: false,
    }
}

/// The bounds of the keys that start with `prefix` and, if there is an `end`, are below `end`.
pub(crate) fn with_prefix(prefix: &[u8], end: Option<&[u8]>) -> Bounds {
    let upper = end.map(<[u8]>::to_vec).or_else(|| successor(prefix));
    Bounds {
        lower: Some(prefix.to_vec()),
        upper,
        within_key: false,
    }
}

/// The smallest key above all keys with this prefix; `None` if there is none.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}
