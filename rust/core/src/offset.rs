//! Offsets in changelog and input topics, which are committed with the changes of a database.

use crate::error::{Error, ErrorKind, Result};

/// A partition of a changelog or input topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name, without NUL bytes.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// Fails for a topic that cannot be stored.
    pub(crate) fn check(&self) -> Result<()> {
        if self.topic.contains('\0') {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                format!("topic {:?} has a NUL character in it", self.topic),
            ));
        }
        Ok(())
    }
}

/// An offset in a partition of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

/// What a commit does to the committed offsets (KIP-1035, `docs/design/stores.md`).
#[derive(Clone, Debug, Default)]
pub enum OffsetChange {
    /// Leave them as they are.
    #[default]
    Keep,
    /// Remove all offsets of the stores that the database was opened with.
    Forget,
    /// Set these offsets; `None` removes an offset.
    Set(Vec<(TopicPartition, Option<Offset>)>),
}

impl OffsetChange {
    /// Whether it changes any offset.
    pub(crate) fn moves(&self) -> bool {
        match self {
            Self::Keep => false,
            Self::Forget => true,
            Self::Set(offsets) => !offsets.is_empty(),
        }
    }

    /// Fails for a topic that cannot be stored.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Keep | Self::Forget => Ok(()),
            Self::Set(offsets) => offsets.iter().try_for_each(|(tp, _)| tp.check()),
        }
    }
}
