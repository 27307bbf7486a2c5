//! A staged record in the form that reads use.

use super::layer::Layer;

/// A staged record in the form that reads use.
#[derive(Clone, Copy)]
pub(crate) struct StagedRecord<'a> {
    /// The key as it will be in the database.
    pub(crate) key: &'a [u8],
    /// `None` for a delete.
    pub(crate) value: Option<&'a [u8]>,
    /// Whether it was the newest version of its key when it was staged (versioned tables only).
    pub(crate) newest: bool,
}

impl<'a> StagedRecord<'a> {
    /// Record `n` of a layer.
    #[inline]
    pub(in crate::transaction) fn new(layer: &'a Layer, n: u32) -> Self {
        Self {
            key: layer.key(n),
            value: layer.value(n),
            newest: layer.newest(n),
        }
    }
}
