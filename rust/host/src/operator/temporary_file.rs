//! A file of intermediate results that have outgrown their memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use holdfast_core::{Error, ErrorKind, Result};

use crate::root::open_files;

/// A file of intermediate results. It has no name, so it disappears with the process.
pub struct TemporaryFile {
    /// None until the first append.
    file: Option<File>,
    folder: PathBuf,
    end: u64,
}

impl TemporaryFile {
    /// An empty file in a folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            file: None,
            folder: folder.to_owned(),
            end: 0,
        }
    }

    /// Appends bytes. Returns where they are.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails.
    pub fn append(&mut self, bytes: &[u8]) -> Result<Range<u64>> {
        self.try_append(bytes).map_err(|error| self.refused(&error))
    }

    fn try_append(&mut self, bytes: &[u8]) -> io::Result<Range<u64>> {
        if self.file.is_none() {
            std::fs::create_dir_all(&self.folder)?;
            self.file = Some(tempfile::tempfile_in(&self.folder)?);
        }
        let mut file = self.opened()?;
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(bytes)?;
        let start = self.end;
        self.end += bytes.len() as u64;
        Ok(start..self.end)
    }

    /// Reads the bytes that begin at a place, as many as `bytes` takes.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn read(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        let read = |bytes: &mut [u8]| {
            let mut file = self.opened()?;
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(bytes)
        };
        read(bytes).map_err(|error| self.refused(&error))
    }

    /// Returns a reader of a part of the file.
    pub fn part(&self, part: Range<u64>) -> FilePart<'_> {
        FilePart { file: self, part }
    }

    /// The error of a read or a write that failed.
    pub fn refused(&self, error: &io::Error) -> Error {
        refused(&self.folder, error)
    }

    fn opened(&self) -> io::Result<&File> {
        let missing = || io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty");
        self.file.as_ref().ok_or_else(missing)
    }
}

/// Reads a part of a file, in order. Several parts may be read in turn.
pub struct FilePart<'a> {
    file: &'a TemporaryFile,
    /// What has not been read yet.
    part: Range<u64>,
}

impl Read for FilePart<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.part.end - self.part.start).unwrap_or(usize::MAX);
        if rest == 0 {
            return Ok(0);
        }
        let most = bytes.len().min(rest);
        let mut file = self.file.opened()?;
        file.seek(SeekFrom::Start(self.part.start))?;
        let read = file.read(&mut bytes[..most])?;
        self.part.start += read as u64;
        Ok(read)
    }
}

/// The error of a read or a write of a temporary file.
pub fn refused(folder: &Path, error: &io::Error) -> Error {
    let advice = open_files(error).unwrap_or(
        "Free some space there, give State(local_dir=...) on a larger disk, or more memory=...",
    );
    let text = format!(
        "an epoch's rows outgrew their memory, and storing them on disk failed \
         ({error}). {advice}"
    );
    Error::new(ErrorKind::Io, text).path(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_in_turn_and_writes_go_to_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = TemporaryFile::new(&folder.path().join("new"));
        assert!(file.read(0, &mut [0]).is_err(), "it is empty");
        assert_eq!(file.append(b"abc").expect("appends"), 0..3);
        let mut two = [0; 2];
        file.read(1, &mut two).expect("reads");
        assert_eq!(&two, b"bc");
        assert_eq!(file.append(b"defg").expect("appends"), 3..7);
        let (mut first, mut second) = (file.part(0..3), file.part(3..6));
        let mut next = |part: &mut FilePart<'_>| {
            let read = part.read(&mut two).expect("reads");
            two[..read].to_vec()
        };
        assert_eq!(next(&mut first), b"ab");
        assert_eq!(next(&mut second), b"de");
        assert_eq!(next(&mut first), b"c");
        assert_eq!(next(&mut second), b"f", "only its own bytes");
        assert_eq!(next(&mut first), b"");
        assert!(file.read(6, &mut two).is_err(), "it ends before");
    }
}
