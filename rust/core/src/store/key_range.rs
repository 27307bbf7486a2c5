//! Ranges of keys as bounds of a scan.

use crate::table::Bounds;

/// The bounds of `[from, to]`, both inclusive. `None` is unbounded; `from > to` is empty.
pub(in crate::store) fn between(from: Option<&[u8]>, to: Option<&[u8]>) -> Bounds {
    let upper = to.map(|to| [to, &[0]].concat());
    ordered(from.map(<[u8]>::to_vec), upper)
}

/// The bounds of the keys that start with `prefix`, or, if there is an `end`, of the keys in
/// `[prefix, end)`. They are empty if `end` is not above `prefix`.
pub(crate) fn with_prefix(prefix: &[u8], end: Option<&[u8]>) -> Bounds {
    let upper = end.map(<[u8]>::to_vec).or_else(|| successor(prefix));
    ordered(Some(prefix.to_vec()), upper)
}

/// The bounds of `[lower, upper)`; empty if `upper` is below `lower`.
fn ordered(lower: Option<Vec<u8>>, upper: Option<Vec<u8>>) -> Bounds {
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

/// The smallest key above all keys with this prefix; `None` if there is none.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bound_is_never_below_the_lower_one() {
        let bounds = with_prefix(b"b", Some(b"a"));
        assert_eq!(bounds.lower, bounds.upper);
        let bounds = between(Some(b"b"), Some(b"a"));
        assert_eq!(bounds.lower, bounds.upper);
        let bounds = with_prefix(b"a", Some(b"b"));
        assert_eq!(bounds.upper.as_deref(), Some(&b"b"[..]));
        assert_eq!(
            with_prefix(b"a\xff", None).upper.as_deref(),
            Some(&b"b"[..])
        );
    }
}
