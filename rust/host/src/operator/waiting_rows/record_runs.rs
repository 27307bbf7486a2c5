//! Records on disk, in sorted runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufReader, ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use holdfast_core::{Result, WindowScan};

use super::close_limit::CloseLimit;
use super::record::{ChangedRecord, Visit, visit};
use crate::memory::budget::Budget;
use crate::operator::temporary_file::{FilePart, TemporaryFile};

/// The memory for each run while runs are merged, in bytes.
const READ_BYTES: usize = 16 << 10;

/// The memory in which a run is collected before it is written, in bytes.
const WRITE_BYTES: usize = 256 << 10;

/// Time, length of the key, length of the record.
const HEADER_BYTES: usize = 24;

/// Records in runs. Those of a run are in the order of time and key.
pub struct RecordRuns {
    file: TemporaryFile,
    runs: Vec<Range<u64>>,
    /// Counts each run as a spill.
    budget: Arc<Budget>,
}

/// A record that has been read. Its order is that of time and key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct RunRecord {
    /// The time.
    pub time: i64,
    /// The key.
    pub key: Vec<u8>,
    run: usize,
    /// The record's rows (`record.rs`).
    pub bytes: Vec<u8>,
}

/// All records of some runs, in the order of time and key.
pub struct RecordMerge<'a> {
    runs: &'a RecordRuns,
    readers: Vec<BufReader<FilePart<&'a TemporaryFile>>>,
    /// The next record of each run with records left.
    next: BinaryHeap<Reverse<RunRecord>>,
}

impl RecordRuns {
    /// No runs, in a file in this folder. `budget` counts the spills.
    pub fn new(folder: &Path, budget: Arc<Budget>) -> Self {
        Self {
            file: TemporaryFile::new(folder),
            runs: Vec::new(),
            budget,
        }
    }

    /// Whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Writes a run of records, which are in the order of time and key.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails.
    pub fn push<'a>(&mut self, records: impl IntoIterator<Item = ChangedRecord<'a>>) -> Result<()> {
        let (mut run, mut buffer) = (self.file.append(&[])?, Vec::new());
        for record in records {
            buffer.extend_from_slice(&record.time.to_be_bytes());
            buffer.extend_from_slice(&(record.key.len() as u64).to_be_bytes());
            buffer.extend_from_slice(&(record.bytes.len() as u64).to_be_bytes());
            buffer.extend_from_slice(record.key);
            buffer.extend_from_slice(record.bytes);
            if buffer.len() >= WRITE_BYTES {
                run.end = self.file.append(&buffer)?.end;
                buffer.clear();
            }
        }
        run.end = self.file.append(&buffer)?.end;
        self.runs.push(run);
        self.budget.count_spill();
        Ok(())
    }

    /// Reads all records from the beginning.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn merge(&self) -> Result<RecordMerge<'_>> {
        let part =
            |run: &Range<u64>| BufReader::with_capacity(READ_BYTES, self.file.part(run.clone()));
        let mut merge = RecordMerge {
            runs: self,
            readers: self.runs.iter().map(part).collect(),
            next: BinaryHeap::new(),
        };
        for run in 0..self.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    /// Passes all closed rows to `f`: first those of `stored`, the closed records of a store,
    /// except the records that are also here, then those that are here. Both are in the order of
    /// time and key.
    ///
    /// # Errors
    /// `Io` if the disk fails; those of the store and of `f`.
    pub fn for_each_closed(
        &self,
        store: &str,
        mut stored: WindowScan,
        limit: CloseLimit,
        f: &mut Visit<'_>,
    ) -> Result<()> {
        let mut changed = self.merge()?;
        let (mut next, mut failed) = (changed.next()?, Ok(()));
        let mut is_changed = |time: i64, key: &[u8]| -> Result<bool> {
            let is_before = |next: &mut RunRecord| (next.time, &next.key[..]) < (time, key);
            while next.take_if(is_before).is_some() {
                next = changed.next()?;
            }
            let is_it = |next: &RunRecord| (next.time, &next.key[..]) == (time, key);
            Ok(next.as_ref().is_some_and(is_it))
        };
        stored.for_each(&mut |window, record| {
            let (key, time) = (window.key, window.start.0);
            failed = match is_changed(time, key) {
                Ok(true) => Ok(()),
                Ok(false) => visit(store, (key, time), record.value, f),
                Err(error) => Err(error),
            };
            failed.is_ok()
        })?;
        failed?;
        let mut changed = self.merge()?;
        while let Some(RunRecord {
            time, key, bytes, ..
        }) = changed.next()?
            && limit.is_closed(time)
        {
            visit(store, (&key[..], time), &bytes, f)?;
        }
        Ok(())
    }
}

impl RecordMerge<'_> {
    /// Returns the next record; none at the end.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn next(&mut self) -> Result<Option<RunRecord>> {
        let Some(Reverse(record)) = self.next.pop() else {
            return Ok(None);
        };
        self.advance(record.run)?;
        Ok(Some(record))
    }

    /// Reads the next record of a run.
    fn advance(&mut self, run: usize) -> Result<()> {
        let record = read_record(&mut self.readers[run], run);
        let record = record.map_err(|error| self.runs.file.refused(&error))?;
        self.next.extend(record.map(Reverse));
        Ok(())
    }
}

/// Reads a record of a run; none at its end.
fn read_record(reader: &mut impl Read, run: usize) -> std::io::Result<Option<RunRecord>> {
    let mut header = [0; HEADER_BYTES];
    match reader.read_exact(&mut header) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let field = |n: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[8 * n..8 * n + 8]);
        i64::from_be_bytes(bytes)
    };
    let mut record = RunRecord {
        time: field(0),
        key: vec![0; field(1) as usize],
        run,
        bytes: vec![0; field(2) as usize],
    };
    reader.read_exact(&mut record.key)?;
    reader.read_exact(&mut record.bytes)?;
    Ok(Some(record))
}
