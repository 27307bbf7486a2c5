//! The stores. Each only speaks to a transaction; none knows what lies beneath it.

pub mod key_value;
pub mod versioned;

/// What a store is, and what must be known to open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Name, unique within a task: letters, digits and `_ - .` only, since families and files carry it.
    pub name: String,
    /// Kind and its settings.
    pub kind: StoreKind,
}

/// The kinds of store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// key → value.
    KeyValue,
    /// (key, timestamp) → value or tombstone.
    Versioned {
        /// How far back versions can be asked for, and the grace of late writes; microseconds, not negative.
        history_retention: i64,
        /// The unit of expiry; microseconds, positive. Its only effect is speed.
        segment_interval: i64,
    },
}

impl StoreKind {
    /// The kind's name in the metadata.
    pub fn name(&self) -> &'static str {
        match self {
            Self::KeyValue => "key_value",
            Self::Versioned { .. } => "versioned",
        }
    }
}
