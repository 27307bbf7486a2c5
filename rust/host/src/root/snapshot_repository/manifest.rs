//! The manifest of a snapshot.

use serde::{Deserialize, Serialize};

use crate::protocol::{Digest, Term};
use crate::root::names::{self, SnapshotId};

const FORMAT: u32 = 1;

/// The files of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotManifest {
    format: u32,
    /// The files.
    pub files: Vec<SnapshotFile>,
}

/// A file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFile {
    /// The file's name in the database's directory.
    pub name: String,
    /// The digest of its content.
    pub digest: Digest,
    /// Its length.
    pub bytes: u64,
    /// The term of the owner that put it.
    pub term: Term,
}

impl SnapshotManifest {
    /// The manifest of these files.
    pub fn new(files: Vec<SnapshotFile>) -> Self {
        let format = FORMAT;
        Self { format, files }
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The text of an error, if this version of Holdfast does not read the manifest's format.
    pub fn other_format(&self) -> Option<String> {
        let format = self.format;
        (format != FORMAT)
            .then(|| format!("has format {format}, this version of Holdfast reads {FORMAT}"))
    }
}

impl SnapshotFile {
    /// The file's object.
    pub fn object(&self, id: &SnapshotId) -> String {
        let content = (self.digest, self.bytes);
        names::snapshot_file(&id.operator, id.partition, content, self.term)
    }
}
