//! Verifies files of far-future rows: those of the log, and their copies in `ahead/`.

use std::io::Seek;

use arrow_ipc::reader::FileReader;
use holdfast_core::{Error, ErrorKind, Result};

use super::walk::VerificationWalk;
use crate::root::objects::os;

impl VerificationWalk<'_> {
    /// Checks the copies in `ahead/`.
    pub(super) fn far_future_rows(&mut self) -> Result<()> {
        for name in self.root.far_future.list(|_| true)? {
            self.arrow_file(&name, None, |walk| Ok(!walk.root.objects.exists(&name)?))?;
        }
        Ok(())
    }

    /// Checks that an Arrow IPC file can be read, and that it has `rows` rows if `rows` is given.
    ///
    /// `is_removed`: whether a host removes the file. If so, a problem with it is not reported
    /// as damage.
    pub(super) fn arrow_file(
        &mut self,
        name: &str,
        rows: Option<u64>,
        is_removed: impl Fn(&Self) -> Result<bool>,
    ) -> Result<()> {
        self.count()?;
        let wrong = |what: String| {
            let place = self.root.objects.place(name);
            let text = format!("{} {what}: restore it from a backup", place.display());
            Error::new(ErrorKind::Restore, text)
        };
        let folder = std::env::temp_dir();
        let mut file =
            tempfile::tempfile().map_err(|error| os("make a file in", &folder, &error))?;
        let problem = if self.root.objects.get_open(name, &file, &folder)? {
            file.rewind().map_err(|error| os("read", &folder, &error))?;
            let counted = FileReader::try_new(file, None).and_then(|batches| {
                batches
                    .map(|batch| Ok(batch?.num_rows() as u64))
                    .sum::<std::result::Result<u64, _>>()
            });
            match (counted, rows) {
                (Err(error), _) => Some(wrong(format!("cannot be read ({error})"))),
                (Ok(found), Some(rows)) if found != rows => {
                    Some(wrong(format!("has {found} rows, not {rows}")))
                }
                (Ok(_), _) => None,
            }
        } else {
            Some(wrong("is missing".to_owned()))
        };
        match problem {
            Some(error) if !is_removed(self)? => self.found_error(name, error),
            Some(_) | None => Ok(()),
        }
    }
}
