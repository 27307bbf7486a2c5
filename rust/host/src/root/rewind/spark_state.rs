//! The files of Spark's own stateful operators, below `query/state`.

use holdfast_core::Result;

use crate::protocol::Epoch;
use crate::root::names;
use crate::root::objects::Objects;
use crate::root::spark_checkpoint::checked_file;

/// What Spark's state stores write for a version. Other files, such as `.sst`, belong to versions
/// that name them.
const OF_A_VERSION: [&str; 4] = ["changelog", "delta", "snapshot", "zip"];

/// Lists the files of the state after `epoch` and later epochs, newest first.
///
/// Spark numbers the state before an epoch like the epoch. It would overwrite the later versions
/// one by one. But a restart may find a newer snapshot of the epochs that were taken back before
/// the query has overwritten it.
///
/// # Errors
/// `Io` if the disk fails.
pub fn state_since(objects: &Objects, epoch: Epoch) -> Result<Vec<String>> {
    let mut files: Vec<(i64, bool, String)> = objects
        .list_below(names::SPARK_STATE)?
        .into_iter()
        .filter_map(|name| {
            let (file, is_checksum) = checked_file(name.rsplit('/').next()?);
            let version = version(file).filter(|version| *version > epoch.0)?;
            Some((version, is_checksum, name))
        })
        .collect();
    // The checksum first: Spark refuses a new file beside the checksum of an old one.
    files.sort_unstable_by(|a, b| b.cmp(a));
    Ok(files.into_iter().map(|(.., name)| name).collect())
}

/// The version of a file: `7.delta`, `7_<id>.zip`.
fn version(file: &str) -> Option<i64> {
    let (stem, kind) = file.rsplit_once('.')?;
    let number = stem.split_once('_').map_or(stem, |(number, _)| number);
    OF_A_VERSION
        .contains(&kind)
        .then(|| number.parse().ok())
        .flatten()
}
