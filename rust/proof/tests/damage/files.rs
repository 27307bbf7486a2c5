//! The files of a database.

use std::path::{Path, PathBuf};

/// The folder of an interrupted commit.
const COMMIT: &str = "+commit";

/// The kind of a file: its name without digits, in the commit folder with the folder's name.
pub fn kind(file: &Path) -> String {
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let folder = file.parent().map(name).filter(|folder| folder == COMMIT);
    let name = folder
        .into_iter()
        .chain([name(file)])
        .collect::<Vec<_>>()
        .join("/");
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// All files of a database and of its commit folder. An open reads no file of another folder.
pub fn files_below(path: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| {
        std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    let mut files = entries(path);
    files.extend(entries(&path.join(COMMIT)));
    files.retain(|file| file.is_file());
    files.sort();
    files
}

pub fn copied(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    for file in files_below(from) {
        let copy = to.join(file.strip_prefix(from).expect("a file below"));
        std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a directory");
        std::fs::copy(&file, copy).expect("a copy");
    }
}
