//! Records of logs and manifests that RocksDB would read for ever.
//!
//! Where damage turns the type of a record into one of a recycled log's, RocksDB's reader neither
//! passes the record over nor tells: `ReadPhysicalRecord` (`db/log_reader.cc`, 11.12;
//! <https://github.com/facebook/rocksdb/issues/13333> is of the same place) finds it bad and leaves
//! it where it is, so an open would never end. The files are therefore walked first, as that reader
//! would. Format: <https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format>.

use super::commit_number;
use crate::error::{Error, ErrorKind, Result};
use crc_fast::CrcAlgorithm;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const BLOCK: usize = 32 * 1024;
/// Checksum, 4 bytes | length, 2 | type, 1.
const HEADER: usize = 7;
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;
/// All the types of recycled logs, which nothing of ours ever writes.
const RECYCLED: [u8; 6] = [5, 6, 7, 8, 11, 131];

/// Looks through the manifest in force and the logs of a closed database. `state` is the number of
/// the last commit in its other files; it is asked for where a log is damaged.
///
/// # Errors
/// `StoreCorrupted` for a record that RocksDB would not get past. Whatever else is wrong, RocksDB
/// tells.
pub(super) fn check(path: &Path, state: impl FnOnce() -> Option<u64>) -> Result<()> {
    let Ok(current) = std::fs::read_to_string(path.join("CURRENT")) else {
        return Ok(());
    };
    let manifest = path.join(current.trim_end());
    if let Some(stuck) = Reader::default().read(&manifest) {
        return Err(damaged(path, stuck, &manifest, ""));
    }
    let mut reader = Reader::default();
    for log in logs(path) {
        if let Some(stuck) = reader.read(&log) {
            let last = state().into_iter().chain(reader.commit).max().unwrap_or(0);
            return Err(damaged(
                path,
                stuck,
                &log,
                &format!("; the last good commit before it is {last}"),
            ));
        }
    }
    Ok(())
}

fn damaged(path: &Path, at: u64, file: &Path, last: &str) -> Error {
    let file = file.file_name().unwrap_or_default().display();
    let message = format!(
        "the record at byte {at} of {file} is damaged{last}; restore the directory from a \
         checkpoint, or delete it where a changelog can rebuild it"
    );
    Error::new(ErrorKind::StoreCorrupted, message).path(path)
}

/// The logs of a database, oldest first.
pub(super) fn logs(path: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| file.path());
    let mut logs: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    logs
}

/// What a reader of one log after the other has come to.
#[derive(Default)]
struct Reader {
    /// The record so far, where it is in several parts.
    record: Option<Vec<u8>>,
    /// A record of this file was read.
    has_read: bool,
    /// The number that the last record of them all ends with.
    commit: Option<u64>,
}

impl Reader {
    /// Where in a file there is a record that nobody gets past; none if there is none, or the file
    /// cannot be read.
    fn read(&mut self, file: &Path) -> Option<u64> {
        (self.record, self.has_read) = (None, false);
        let mut file = File::open(file).ok()?;
        let (mut block, mut before) = (Vec::with_capacity(BLOCK), 0);
        loop {
            block.clear();
            let read: io::Result<usize> = file.by_ref().take(BLOCK as u64).read_to_end(&mut block);
            match self.block(&block) {
                Walk::Stuck(at) => return Some(before + at as u64),
                Walk::Over if read.is_ok_and(|read| read == BLOCK) => before += BLOCK as u64,
                Walk::Over | Walk::Recycled => return None,
            }
        }
    }

    fn block(&mut self, block: &[u8]) -> Walk {
        let mut at = 0;
        while let Some((header, rest)) = block[at..].split_first_chunk::<HEADER>() {
            let [c0, c1, c2, c3, l0, l1, kind] = *header;
            if RECYCLED.contains(&kind) {
                return if self.has_read {
                    Walk::Stuck(at)
                } else {
                    Walk::Recycled
                };
            }
            let length = usize::from(u16::from_le_bytes([l0, l1]));
            let checksum = unmasked(u32::from_le_bytes([c0, c1, c2, c3]));
            let whole = rest
                .get(..length)
                .filter(|_| crc(&block[at + HEADER - 1..at + HEADER + length]) == checksum);
            let Some(part) = whole else {
                // What is left of the block is passed over: the length may be wrong.
                self.record = None;
                return Walk::Over;
            };
            self.part(kind, part);
            at += HEADER + length;
        }
        Walk::Over
    }

    fn part(&mut self, kind: u8, part: &[u8]) {
        match kind {
            FULL => self.whole(part),
            FIRST => self.record = Some(part.to_vec()),
            MIDDLE | LAST => {
                let Some(mut record) = self.record.take() else {
                    return;
                };
                record.extend_from_slice(part);
                if kind == LAST {
                    self.whole(&record);
                } else {
                    self.record = Some(record);
                }
            }
            _ => {}
        }
    }

    fn whole(&mut self, record: &[u8]) {
        self.has_read = true;
        self.commit = commit_number::of_record(record).or(self.commit);
    }
}

enum Walk {
    Stuck(usize),
    /// To the end of the block.
    Over,
    /// A recycled log from its first record on, which is read in another way.
    Recycled,
}

fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// As `util/crc32c.h` has it.
fn unmasked(stored: u32) -> u32 {
    stored.wrapping_sub(0xa282_ead8).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of records, as RocksDB's writer cuts them into blocks.
    fn written(records: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        for record in records {
            let (mut rest, mut begins) = (*record, true);
            loop {
                let room = BLOCK - file.len() % BLOCK;
                if room < HEADER {
                    file.resize(file.len() + room, 0);
                    continue;
                }
                let (part, behind) = rest.split_at(rest.len().min(room - HEADER));
                let kind = match (begins, behind.is_empty()) {
                    (true, true) => FULL,
                    (true, false) => FIRST,
                    (false, false) => MIDDLE,
                    (false, true) => LAST,
                };
                let checksum = crc(&[&[kind], part].concat())
                    .rotate_right(15)
                    .wrapping_add(0xa282_ead8);
                file.extend_from_slice(&checksum.to_le_bytes());
                file.extend_from_slice(&(part.len() as u16).to_le_bytes());
                file.push(kind);
                file.extend_from_slice(part);
                (rest, begins) = (behind, false);
                if rest.is_empty() {
                    break;
                }
            }
        }
        file
    }

    fn commit(number: u64, bytes: usize) -> Vec<u8> {
        [
            &vec![1; bytes],
            &[6][..],
            commit_number::KEY,
            &[8],
            &number.to_be_bytes(),
        ]
        .concat()
    }

    fn read(file: &[u8]) -> std::io::Result<(Option<u64>, Option<u64>)> {
        let path = tempfile::NamedTempFile::new()?;
        std::fs::write(path.path(), file)?;
        let mut reader = Reader::default();
        Ok((reader.read(path.path()), reader.commit))
    }

    #[test]
    fn a_record_that_nobody_gets_past_is_found_with_the_commit_before_it() -> std::io::Result<()> {
        let records = [commit(7, 10), commit(8, 3 * BLOCK), commit(9, 10)];
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let good = written(&records);
        assert_eq!(read(&good)?, (None, Some(9)));
        let last = written(&records[..2]).len();
        for kind in RECYCLED {
            let mut bad = good.clone();
            bad[last + HEADER - 1] = kind;
            assert_eq!(read(&bad)?, (Some(last as u64), Some(8)), "type {kind}");
            // As the file's first record it makes a recycled log of it, and that is another
            // reader's.
            let mut first = good.clone();
            first[HEADER - 1] = kind;
            assert_eq!(read(&first)?, (None, None), "type {kind}");
        }
        Ok(())
    }

    #[test]
    fn what_rocksdb_passes_over_is_passed_over() -> std::io::Result<()> {
        let records = [
            commit(7, 10),
            commit(8, 10),
            commit(9, BLOCK),
            commit(10, 10),
        ];
        let good = written(&records.iter().map(Vec::as_slice).collect::<Vec<_>>());
        // The rest of a block behind a checksum that is wrong, whatever it looks like.
        let second = written(&[&records[0]]).len();
        let mut bad = good.clone();
        bad[second + HEADER] ^= 1;
        bad[written(&[&records[0], &records[1]]).len() + HEADER - 1] = 5;
        assert_eq!(read(&bad)?, (None, Some(10)));
        // A tail that was cut.
        for cut in (0..good.len()).step_by(61) {
            assert_eq!(read(&good[..cut])?.0, None, "{cut}");
        }
        Ok(())
    }
}
