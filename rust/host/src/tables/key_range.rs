//! A range of a store's keys.

/// The keys from `lower` to `upper`, both included; a missing bound is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub lower: Option<Vec<u8>>,
    /// The last key.
    pub upper: Option<Vec<u8>>,
    /// Whether keys that start with `upper` are included, too.
    pub includes_longer: bool,
}

impl KeyRange {
    /// The keys that start with a prefix.
    pub fn prefix(prefix: Vec<u8>) -> Self {
        Self {
            lower: Some(prefix.clone()),
            upper: Some(prefix),
            includes_longer: true,
        }
    }

    /// Exactly one key.
    pub fn one(key: Vec<u8>) -> Self {
        Self {
            lower: Some(key.clone()),
            upper: Some(key),
            includes_longer: false,
        }
    }

    /// The key, if the range holds no other.
    pub fn only(&self) -> Option<&[u8]> {
        match &self.lower {
            Some(lower) if !self.includes_longer && self.upper.as_ref() == Some(lower) => {
                Some(lower)
            }
            _ => None,
        }
    }

    /// Whether a key is before the range's end. The range's begin is not checked.
    pub fn is_before_end(&self, key: &[u8]) -> bool {
        self.upper.as_ref().is_none_or(|upper| {
            key <= upper.as_slice() || self.includes_longer && key.starts_with(upper)
        })
    }

    /// Whether the range holds a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        let lower = self.lower.as_deref();
        lower.is_none_or(|lower| lower <= key) && self.is_before_end(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_holds_its_bounds_and_a_prefix_holds_longer_keys() {
        let range = |longer| KeyRange {
            lower: Some(b"b".to_vec()),
            upper: Some(b"d".to_vec()),
            includes_longer: longer,
        };
        let held = |range: &KeyRange| {
            let keys: [&[u8]; 6] = [b"a", b"b", b"ba", b"d", b"da", b"e"];
            keys.map(|key| range.contains(key))
        };
        assert_eq!(held(&range(false)), [false, true, true, true, false, false]);
        assert_eq!(held(&range(true)), [false, true, true, true, true, false]);
        let prefix = KeyRange::prefix(b"b".to_vec());
        assert_eq!(held(&prefix), [false, true, true, false, false, false]);
        assert_eq!(KeyRange::one(b"b".to_vec()).only(), Some(b"b".as_slice()));
        assert_eq!(prefix.only(), None);
        assert!(KeyRange::default().contains(b""));
    }
}
