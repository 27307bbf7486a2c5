//! A file of rows or intermediate results that are not in memory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};

use crate::root::open_files;

/// A file in a folder for temporary files. It has no name, so it disappears with the process.
pub struct TemporaryFile {
    /// None until it is created.
    file: Option<File>,
    folder: PathBuf,
    end: u64,
}

impl TemporaryFile {
    /// An empty file in a folder. It is created by the first write.
    pub fn new(folder: &Path) -> Self {
        Self {
            file: None,
            folder: folder.to_owned(),
            end: 0,
        }
    }

    /// Creates an empty file in a folder, for a buffered writer. Such a writer also writes when it
    /// is dropped. The folder may be deleted by then, and must not be created again.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let mut file = Self::new(folder);
        file.ensure_created()?;
        Ok(file)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends bytes. Returns where they are.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails.
    pub fn append(&mut self, bytes: &[u8]) -> Result<Range<u64>> {
        let start = self.end;
        self.write_all(bytes)
            .map_err(|error| self.refused(&error))?;
        Ok(start..self.end)
    }

    /// Reads the bytes that begin at a place, as many as `bytes` takes.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn read(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        let read = self
            .opened()
            .and_then(|file| file.read_exact_at(bytes, start));
        read.map_err(|error| self.refused(&error))
    }

    /// Returns a reader of a part of the file.
    pub fn part(&self, part: Range<u64>) -> FilePart<&Self> {
        FilePart { file: self, part }
    }

    /// Returns a reader of all bytes that are in the file now.
    pub fn whole(self: &Arc<Self>) -> FilePart<Arc<Self>> {
        FilePart {
            file: Arc::clone(self),
            part: 0..self.end,
        }
    }

    /// Returns the file itself, positioned at its start; none if it was not created.
    pub fn into_file(self) -> Option<File> {
        // Reads and writes name their places, so they have not moved the position.
        self.file
    }

    /// The error of a read or a write that failed.
    pub fn refused(&self, error: &io::Error) -> Error {
        refused(&self.folder, error)
    }

    fn ensure_created(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            std::fs::create_dir_all(&self.folder)?;
            self.file = Some(tempfile::tempfile_in(&self.folder)?);
        }
        Ok(())
    }

    fn opened(&self) -> io::Result<&File> {
        let missing = || io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty");
        self.file.as_ref().ok_or_else(missing)
    }
}

/// Writes to the end.
impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ensure_created()?;
        let written = self.opened()?.write_at(bytes, self.end)?;
        self.end += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a part of a file, in order. Several parts may be read in turn. `F` refers to the
/// [`TemporaryFile`].
pub struct FilePart<F> {
    file: F,
    /// What has not been read yet.
    part: Range<u64>,
}

impl<F: Deref<Target = TemporaryFile>> Read for FilePart<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.part.end - self.part.start).unwrap_or(usize::MAX);
        if rest == 0 {
            return Ok(0);
        }
        let most = bytes.len().min(rest);
        let file = self.file.opened()?;
        let read = file.read_at(&mut bytes[..most], self.part.start)?;
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
    use std::io::BufWriter;

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
        let mut next = |part: &mut FilePart<&TemporaryFile>| {
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

    #[test]
    fn written_file_is_read_as_a_whole_and_positioned_at_its_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("new");
        let mut writer = BufWriter::new(TemporaryFile::create(&place).expect("creates"));
        std::fs::remove_dir(&place).expect("the file has no name in it");
        writer.write_all(b"abc").expect("writes");
        let file = Arc::new(writer.into_inner().ok().expect("writes"));
        assert!(!place.exists(), "a write creates no folder");
        for _ in 0..2 {
            let mut all = String::new();
            let mut whole = file.whole();
            whole.read_to_string(&mut all).expect("reads");
            assert_eq!(all, "abc", "each reader begins at the start");
        }
        let file = Arc::into_inner(file).expect("no other reader");
        let mut all = String::new();
        let mut file = file.into_file().expect("created");
        file.read_to_string(&mut all).expect("reads");
        assert_eq!(all, "abc");
        assert!(TemporaryFile::new(&place).into_file().is_none());
    }
}
