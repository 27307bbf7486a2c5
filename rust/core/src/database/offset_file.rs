//! Text files of offsets, `.checkpoint_<store>`, for user-defined stores that do not manage their
//! own offsets (KIP-1035). The format is that of Kafka Streams' checkpoint files.
//!
//! ```text
//! 0                               the format's version
//! 2                               the number of lines that follow
//! rates-changelog 0 41            topic, partition, offset
//! rates-changelog 1 7
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, TopicPartition};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::path::Path;

/// Offsets by partition.
pub type Offsets = BTreeMap<TopicPartition, Offset>;

const VERSION: &str = "0";

/// Reads the offsets in a file; `None` if there is no file. Negative offsets mean "not known" and
/// are left out.
///
/// # Errors
/// `StoreCorrupted` with the number of the line that is malformed; `Io`.
pub fn read_offsets(path: &Path) -> Result<Option<Offsets>> {
    match std::fs::read(path) {
        Ok(bytes) => parse(&String::from_utf8_lossy(&bytes))
            .map(Some)
            .map_err(|error| error.path(path)),
        Err(e) if e.kind() == IoErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::new(
            ErrorKind::Io,
            format!("the file cannot be read: {e}; check its permissions"),
        )
        .path(path)),
    }
}

/// Parses a file's content, as [`read_offsets`] does.
fn parse(text: &str) -> Result<Offsets> {
    let lines: Vec<&str> = text.lines().collect();
    let malformed = |number: usize, wanted: &str| {
        let line = lines.get(number - 1).map_or_else(
            || "the end of the file".to_owned(),
            |line| format!("{line:.100?}"),
        );
        let words = format!(
            "line {number} is {line}; wanted: {wanted}; repair the line, or delete the file to \
             restore from the changelog"
        );
        Error::new(ErrorKind::StoreCorrupted, words)
    };
    if lines.first() != Some(&VERSION) {
        return Err(malformed(1, "0, the version of the format"));
    }
    let rows = lines.len().saturating_sub(2);
    if lines.get(1).and_then(|count| count.parse().ok()) != Some(rows) {
        return Err(malformed(
            2,
            &format!("{rows}, the number of lines that follow"),
        ));
    }
    let mut offsets = Offsets::new();
    for (n, line) in lines.iter().enumerate().skip(2) {
        let row = || {
            let mut parts = line.split(' ');
            let topic = parts.next().filter(|topic| !topic.is_empty())?.to_owned();
            let (partition, offset) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            parts
                .next()
                .is_none()
                .then_some((TopicPartition { topic, partition }, Offset(offset)))
        };
        let (tp, offset) = row().ok_or_else(|| {
            malformed(
                n + 1,
                "topic, partition and offset with one space between them",
            )
        })?;
        offsets.insert(tp, offset);
    }
    offsets.retain(|_, offset| offset.0 >= 0);
    Ok(offsets)
}

/// The content of a file with these offsets.
fn text(offsets: &Offsets) -> String {
    let row = |(tp, offset): (&TopicPartition, &Offset)| {
        format!("{} {} {}\n", tp.topic, tp.partition, offset.0)
    };
    format!(
        "{VERSION}\n{}\n{}",
        offsets.len(),
        offsets.iter().map(row).collect::<String>()
    )
}

/// Fails for a topic that a line cannot hold.
///
/// # Errors
/// `InvalidValue`.
pub fn check_topic(topic: &str) -> Result<()> {
    if !topic.is_empty() && !topic.contains(char::is_whitespace) {
        return Ok(());
    }
    let words = format!(
        "topic {topic:?} is empty or has white space in it, which the text files of offsets cannot \
         hold"
    );
    Err(Error::new(ErrorKind::InvalidValue, words))
}

/// Writes the offsets atomically; they are on disk on return. A file without offsets is written
/// too: it records a clean close.
///
/// # Errors
/// `InvalidValue` for a topic that is empty or has white space in it, which the format cannot hold;
/// `Io`.
pub fn write_offsets(path: &Path, offsets: &Offsets) -> Result<()> {
    offsets
        .keys()
        .try_for_each(|tp| check_topic(&tp.topic))
        .map_err(|e| e.path(path))?;
    replace(path, &text(offsets)).map_err(|e| {
        Error::new(
            ErrorKind::Io,
            format!("the file cannot be written: {e}; check its permissions and the disk's space"),
        )
        .path(path)
    })
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // No store's name contains a `+`, so this is not the file of another store.
    let new = path.with_file_name(format!(
        "{}+new",
        path.file_name().unwrap_or_default().to_string_lossy()
    ));
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    sync_directory(path)
}

/// Removes the file, if there is one. The removal is synced, so that a power loss does not bring
/// the old offsets back.
///
/// # Errors
/// `Io`.
pub fn remove_offsets(path: &Path) -> Result<()> {
    let removed = std::fs::remove_file(path).or_else(|e| {
        if e.kind() == IoErrorKind::NotFound {
            Ok(())
        } else {
            Err(e)
        }
    });
    let words = |e| {
        Error::new(
            ErrorKind::Io,
            format!("the file cannot be removed: {e}; check its permissions"),
        )
        .path(path)
    };
    removed.and_then(|()| sync_directory(path)).map_err(words)
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    let directory = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(rows: &[(&str, i32, i64)]) -> Offsets {
        rows.iter()
            .map(|(topic, partition, offset)| {
                (
                    TopicPartition {
                        topic: (*topic).into(),
                        partition: *partition,
                    },
                    Offset(*offset),
                )
            })
            .collect()
    }

    #[test]
    fn offsets_round_trip_without_unknown_ones() -> Result<()> {
        let some = offsets(&[("a", 0, 41), ("a", -1, 0), ("b.c", 12, i64::MAX)]);
        assert_eq!(parse(&text(&some))?, some);
        assert_eq!(parse(&text(&Offsets::new()))?, Offsets::new());
        assert_eq!(parse("0\n2\na 0 -4\na 1 5\n")?, offsets(&[("a", 1, 5)]));
        Ok(())
    }

    #[test]
    fn error_names_malformed_line() {
        let cases = [
            ("", 1),
            ("1\n0\n", 1),
            ("0\n", 2),
            ("0\nx\n", 2),
            ("0\n2\na 0 1\n", 2),
            ("0\n1\na 0\n", 3),
            ("0\n1\na 0 1 2\n", 3),
        ];
        for (text, line) in cases.into_iter().chain([
            ("0\n2\na 0 1\n 0 1\n", 4),
            ("0\n1\na x 1\n", 3),
            ("0\n1\na 0 99999999999999999999\n", 3),
        ]) {
            let error = parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::StoreCorrupted);
            assert!(
                error.to_string().starts_with(&format!("line {line} is ")),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn topic_with_white_space_is_an_error() {
        let error = write_offsets(Path::new("/nowhere"), &offsets(&[("a b", 0, 1)]))
            .expect_err("white space");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
    }
}
