//! The kinds of column families and their names. Each store has its own families, and two belong to
//! the database.

/// What a column family holds. The kind decides the family's options and is part of its name, so a
/// database is opened with the right options before any of its rows is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// Format version, store descriptors, stream times, properties.
    Metadata,
    /// Changelog offsets.
    Offsets,
    /// Rows of a key-value store.
    KeyValue,
    /// Rows of a versioned store: key, then inverted begin.
    Versions,
    /// The newest row of each key of a versioned store.
    Latest,
    /// Rows of a timestamped key-value store.
    Stamped,
    /// Rows of a window or session store, by key and time.
    Windowed,
    /// Keys of the rows of a window or session store, by time, without values.
    Times,
}

/// A family to open.
#[derive(Clone, Debug)]
pub struct FamilySpec {
    pub(crate) kind: FamilyKind,
    pub(crate) store: String,
}

impl FamilySpec {
    /// Creates the description of a store's family of this kind.
    ///
    /// For the database's own families `store` is empty.
    pub fn new(kind: FamilyKind, store: &str) -> Self {
        Self {
            kind,
            store: store.to_owned(),
        }
    }

    /// Returns the column family's name on disk.
    pub fn name(&self) -> String {
        match self.kind {
            FamilyKind::Metadata => "metadata".to_owned(),
            FamilyKind::Offsets => "offsets".to_owned(),
            FamilyKind::KeyValue => format!("kv:{}", self.store),
            FamilyKind::Versions => format!("versions:{}", self.store),
            FamilyKind::Latest => format!("latest:{}", self.store),
            FamilyKind::Stamped => format!("stamped:{}", self.store),
            FamilyKind::Windowed => format!("windowed:{}", self.store),
            FamilyKind::Times => format!("times:{}", self.store),
        }
    }

    /// Parses a column family's name on disk; `None` if Holdfast writes no such name.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, store) = match name.split_once(':') {
            None if name == "metadata" => (FamilyKind::Metadata, ""),
            None if name == "offsets" => (FamilyKind::Offsets, ""),
            Some(("kv", store)) => (FamilyKind::KeyValue, store),
            Some(("versions", store)) => (FamilyKind::Versions, store),
            Some(("latest", store)) => (FamilyKind::Latest, store),
            Some(("stamped", store)) => (FamilyKind::Stamped, store),
            Some(("windowed", store)) => (FamilyKind::Windowed, store),
            Some(("times", store)) => (FamilyKind::Times, store),
            _ => return None,
        };
        Some(Self::new(kind, store))
    }
}
