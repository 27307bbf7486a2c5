//! The text files of one database.

use super::text_file::{self, Offsets};
use crate::error::Result;
use crate::position::Position;
use crate::store::StoreSpec;
use std::path::{Path, PathBuf};

pub(super) const CHECKPOINT: &str = ".checkpoint";

pub(super) fn position_file(store: &str) -> String {
    format!("{store}.position")
}

/// The text files of a directory.
pub(super) struct LegacyFiles {
    pub(super) checkpoint: Offsets,
    pub(super) positions: Position,
    pub(super) paths: Vec<PathBuf>,
}

impl LegacyFiles {
    pub(super) fn read(directory: &Path, stores: &[StoreSpec]) -> Result<Self> {
        let mut paths = Vec::new();
        let mut read = |name: String| {
            let path = directory.join(name);
            let offsets = text_file::read_offsets(&path)?;
            paths.extend(offsets.is_some().then_some(path));
            Ok(offsets.unwrap_or_default())
        };
        let checkpoint = read(CHECKPOINT.to_owned())?;
        let positions: Vec<Offsets> = stores
            .iter()
            .map(|spec| read(position_file(&spec.name)))
            .collect::<Result<_>>()?;
        Ok(Self {
            checkpoint,
            positions: positions.into_iter().flatten().collect(),
            paths,
        })
    }
}
