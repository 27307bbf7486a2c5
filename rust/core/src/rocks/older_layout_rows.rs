//! Keys of the rows that the `default` family holds for the database's own families, as long as a
//! program with an older layout may open the database.
//!
//! Such a program names only the stores' families, and RocksDB opens a database only if all of its
//! families are named.
//!
//! ```text
//! default   holdfast: | family's name | : | key → value    file:NAME is the text of a file
//! ```

/// The prefix of these keys.
pub(crate) const OLDER_LAYOUT_PREFIX: &[u8] = b"holdfast:";

/// The key of a row of a family.
pub(crate) fn older_layout_key(family: &str, key: &[u8]) -> Vec<u8> {
    [OLDER_LAYOUT_PREFIX, family.as_bytes(), b":", key].concat()
}
