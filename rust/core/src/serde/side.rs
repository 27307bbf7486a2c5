//! Keys and values are encoded differently.

/// The side of a store's records that a serde encodes: keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerdeSide {
    /// Keys: their bytes sort as the keys do.
    Key,
    /// Values: every bit is retained, and a struct's columns may be added and removed.
    Value,
}
