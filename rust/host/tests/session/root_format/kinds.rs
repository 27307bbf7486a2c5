//! The files of a root, and which kinds of objects they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files below a folder, except the local databases; the names are relative to it.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        } else {
            found.push(path.strip_prefix(folder).unwrap().to_owned());
        }
    }
    found.retain(|file| !file.starts_with("state"));
    found
}

/// The kinds of the objects below a folder: their names with `N` for a number, `D` for random
/// digits or a digest, and `O` for an operator.
pub(super) fn kinds(folder: &Path) -> BTreeSet<String> {
    let kind = |part: &str| {
        if part.len() >= 16 && part.len() != 20 && part.bytes().all(|b| b.is_ascii_hexdigit()) {
            "D".to_owned()
        } else if part.bytes().all(|b| b.is_ascii_digit()) {
            "N".to_owned()
        } else if ["join", "visits"].contains(&part) {
            "O".to_owned()
        } else {
            part.to_owned()
        }
    };
    let of_file = |file: PathBuf| {
        let name = file.to_str().unwrap();
        let parts = name.split_inclusive(['/', '.', '-']).map(|part| {
            let text = part.trim_end_matches(['/', '.', '-']);
            kind(text) + &part[text.len()..]
        });
        parts.collect::<String>()
    };
    files(folder).into_iter().map(of_file).collect()
}

/// The table in `rust/host/src/root/mod.rs`, and what is moved by a rewind.
pub(super) const KINDS: [&str; 26] = [
    "ahead/O/N.N.arrow",
    "followers/billing/N",
    "log/N/O.N.N",
    "log/N/chunks/O.N.N.N-D.N",
    "log/N/chunks/O.N.N.N-D.N.arrow",
    "log/N/decided.N",
    "meta.json",
    "operators/O.N.json",
    "operators/O.json",
    "owners/O/N/N.N",
    "query/commits/N",
    "query/holdfast",
    "query/metadata",
    "query/offsets/N",
    "readers/O/N/N.N",
    "removed/N/ahead/O/N.N.arrow",
    "removed/N/log/N/O.N.N",
    "removed/N/log/N/chunks/O.N.N.N-D.N.arrow",
    "removed/N/query/commits/N",
    "rewinds/N",
    "runs/N",
    "runs/ids/D",
    "snapshots/O/N/N.D.N.N",
    "snapshots/O/N/N.D.N.N.removal",
    "snapshots/O/N/files/D-N.N.N",
    "trims/N.N",
];
