//! The files of a database after a kill.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// Copies a database's files as a kill leaves them.
///
/// All copies are of one moment: if a file was added, has grown or was removed meanwhile, the
/// function copies all files again.
pub fn copy_as_killed(from: &Path, to: &Path) {
    let files = || -> BTreeMap<OsString, u64> {
        let entries = std::fs::read_dir(from).unwrap().flatten();
        entries
            .filter_map(|file| {
                Some((
                    file.file_name(),
                    file.metadata().ok().filter(|found| found.is_file())?.len(),
                ))
            })
            .collect()
    };
    loop {
        let before = files();
        std::fs::create_dir(to).unwrap();
        let copied = before
            .keys()
            .all(|file| std::fs::copy(from.join(file), to.join(file)).is_ok());
        if copied && files() == before {
            return;
        }
        std::fs::remove_dir_all(to).unwrap();
    }
}
