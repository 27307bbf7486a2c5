//! The model of a versioned store: a map of maps, and the stream time. This file is the whole
//! contract of what such a store must return.

use std::collections::BTreeMap;

/// Value, begin, end.
pub type VersionRow = (Vec<u8>, i64, Option<i64>);

/// The model of a versioned store.
#[derive(Clone, Debug)]
pub struct History {
    retention: i64,
    /// key → begin → value.
    keys: BTreeMap<Vec<u8>, BTreeMap<i64, Option<Vec<u8>>>>,
    stream_time: Option<i64>,
}

impl History {
    /// Returns a model with this history retention.
    pub fn new(retention: i64) -> Self {
        Self {
            retention,
            keys: BTreeMap::new(),
            stream_time: None,
        }
    }

    /// Returns the greatest time of an accepted put.
    pub fn stream_time(&self) -> Option<i64> {
        self.stream_time
    }

    /// Returns the earliest time at which history can be read and puts are accepted.
    pub fn horizon(&self) -> i64 {
        self.stream_time
            .map_or(i64::MIN, |time| time - self.retention)
    }

    /// Returns all keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.keys().map(Vec::as_slice)
    }

    /// Puts a version (`None`: a tombstone). Returns whether it is accepted, and the begin of the
    /// next version.
    pub fn put(&mut self, key: &[u8], value: Option<Vec<u8>>, at: i64) -> (bool, Option<i64>) {
        if at < self.horizon() {
            return (false, None);
        }
        let versions = self.keys.entry(key.to_vec()).or_default();
        versions.insert(at, value);
        let next = versions.range(at + 1..).next().map(|(begin, _)| *begin);
        self.stream_time = self.stream_time.max(Some(at));
        (true, next)
    }

    /// Removes versions that no query can return.
    pub fn expire(&mut self) {
        let horizon = self.horizon();
        for versions in self.keys.values_mut() {
            while versions.len() > 1 && versions.keys().nth(1).is_some_and(|end| *end < horizon) {
                versions.pop_first();
            }
        }
    }

    fn row(versions: &BTreeMap<i64, Option<Vec<u8>>>, begin: i64) -> Option<VersionRow> {
        let value = versions[&begin].clone()?;
        Some((
            value,
            begin,
            versions.range(begin + 1..).next().map(|(begin, _)| *begin),
        ))
    }

    /// Returns the version valid at a time.
    pub fn get(&self, key: &[u8], at: i64) -> Option<VersionRow> {
        let versions = self.keys.get(key)?;
        let (newest, _) = versions.last_key_value()?;
        if at < self.horizon() && *newest > at {
            return None;
        }
        let (begin, _) = versions.range(..=at).next_back()?;
        Self::row(versions, *begin)
    }

    /// Returns the versions of a key that were valid between two inclusive times, oldest first.
    pub fn versions(&self, key: &[u8], from: i64, to: i64) -> Vec<VersionRow> {
        let Some(versions) = self.keys.get(key) else {
            return Vec::new();
        };
        let newest_only = to < self.horizon();
        let rows = versions
            .keys()
            .filter_map(|begin| Self::row(versions, *begin));
        let meets = |begin: i64, end: Option<i64>| {
            from <= to
                && begin <= to
                && end.is_none_or(|end| !newest_only && end > from && end >= self.horizon())
        };
        rows.filter(|(_, begin, end)| meets(*begin, *end)).collect()
    }
}
