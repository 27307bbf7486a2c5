//! The manifest of a snapshot.

use std::path::Path;

use holdfast_core::{Error, ErrorKind, Result};
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
    /// Returns the manifest of these files.
    pub fn new(files: Vec<SnapshotFile>) -> Self {
        let format = FORMAT;
        Self { format, files }
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the text of an error if this version of Holdfast cannot read the manifest's format.
    pub fn other_format(&self) -> Option<String> {
        let format = self.format;
        (format != FORMAT)
            .then(|| format!("has format {format}, this version of Holdfast reads {FORMAT}"))
    }
}

impl SnapshotFile {
    /// Returns the name of the file's object.
    pub fn object(&self, id: &SnapshotId) -> String {
        let content = (self.digest, self.bytes);
        names::snapshot_file(&id.operator, id.partition, content, self.term)
    }

    /// Checks the length and the digest that were read at `place`. If there is no object, `length`
    /// is `None`.
    ///
    /// # Errors
    /// `Restore` if the content is missing or is not that of this file.
    pub fn check_content(&self, place: &Path, length: Option<u64>, digest: Digest) -> Result<()> {
        let what = match length {
            None => "is missing",
            Some(length) if length == self.bytes && digest == self.digest => return Ok(()),
            Some(_) => "is damaged: its length or its digest is not that in the manifest",
        };
        let text = format!("{} {what}", place.display());
        Err(Error::new(ErrorKind::Restore, text))
    }
}
