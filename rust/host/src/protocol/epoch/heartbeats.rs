//! The heartbeats and the sources of a query, in an epoch's file of Spark's offset log.

use serde::Deserialize;
use xxhash_rust::xxh3::Xxh3Default;

use crate::protocol::digest::Digest;

/// The heartbeats of a query, as the offsets of an epoch describe them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeats {
    /// The longest `idle_after` of a heartbeat, in microseconds.
    pub idle_after: i64,
    /// When the run that planned the epoch began, in epoch microseconds.
    pub started: i64,
}

/// The line of a heartbeat (`python/holdfast/spark/heartbeat.py`).
#[derive(Deserialize)]
struct HeartbeatLine {
    #[expect(
        dead_code,
        reason = "its presence marks a heartbeat's line; the time is in the heartbeat's row"
    )]
    holdfast_heartbeat: i64,
    idle_after: i64,
    started: i64,
}

impl Heartbeats {
    /// Reads the heartbeats of an epoch's file of the offset log; none if the query has no
    /// heartbeat, or if no heartbeat has begun yet.
    #[must_use]
    pub fn of_offsets(offsets: &[u8]) -> Option<Self> {
        source_lines(offsets)
            .filter_map(heartbeat)
            .map(|line| Self {
                idle_after: line.idle_after,
                started: line.started,
            })
            .reduce(|one, other| Self {
                idle_after: one.idle_after.max(other.idle_after),
                started: one.started.max(other.started),
            })
    }
}

/// Returns the digest of the offsets of all sources but the heartbeats, from an epoch's file of the
/// offset log.
///
/// If two epochs have the same digest, none of these sources has moved.
#[must_use]
pub fn sources_digest(offsets: &[u8]) -> Digest {
    let mut hasher = Xxh3Default::new();
    for line in source_lines(offsets).filter(|line| heartbeat(line).is_none()) {
        hasher.update(&(line.len() as u64).to_le_bytes());
        hasher.update(line);
    }
    Digest::from_hasher(&hasher)
}

/// The lines of the sources; the version and the metadata are before them.
fn source_lines(offsets: &[u8]) -> impl Iterator<Item = &[u8]> {
    offsets.split(|byte| *byte == b'\n').skip(2)
}

/// Parses the line of a heartbeat. In version 2 of the offset log, the source's id and a colon are
/// before the JSON.
fn heartbeat(line: &[u8]) -> Option<HeartbeatLine> {
    let begin = line.iter().position(|byte| *byte == b'{')?;
    serde_json::from_slice(&line[begin..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(sources: &[&str]) -> Vec<u8> {
        let metadata = r#"{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{}}"#;
        [&["v1", metadata], sources]
            .concat()
            .join("\n")
            .into_bytes()
    }

    fn beat(at: i64, idle_after: i64, started: i64) -> String {
        format!(
            r#"{{"holdfast_heartbeat": {at}, "idle_after": {idle_after}, "started": {started}}}"#
        )
    }

    #[test]
    fn heartbeats_are_found_by_their_lines() {
        let (one, other) = (beat(9, 60, 3), beat(9, 10, 4));
        assert_eq!(
            Heartbeats::of_offsets(&offsets(&[r#"{"logOffset":0}"#, &one, "-", &other])),
            Some(Heartbeats {
                idle_after: 60,
                started: 4
            })
        );
        assert_eq!(
            Heartbeats::of_offsets(&offsets(&[r#"{"logOffset":0}"#, "-", "7"])),
            None
        );
        let with_id = format!("1:{one}");
        assert_eq!(
            Heartbeats::of_offsets(&offsets(&["0:{}", &with_id])),
            Some(Heartbeats {
                idle_after: 60,
                started: 3
            })
        );
        assert_eq!(Heartbeats::of_offsets(b""), None);
    }

    #[test]
    fn only_other_sources_move() {
        let before = offsets(&["3", &beat(1, 60, 0)]);
        let sources_moved = |now: &[&str]| sources_digest(&before) != sources_digest(&offsets(now));
        assert!(!sources_moved(&["3", &beat(2, 60, 0)]));
        assert!(sources_moved(&["4", &beat(1, 60, 0)]));
        assert!(sources_moved(&["3", "0", &beat(1, 60, 0)]), "a new source");
    }
}
