//! A scan of the table as of a moment in the history.
//!
//! The scan walks over the rows of `versions`; or it reads the keys from `latest`, and seeks in
//! `versions` for those that have changed after the moment. The walk is cheaper if the keys have
//! few versions. A sample of its rows decides.

use super::as_of_key::AsOfKey;
use crate::error::Result;
use crate::store::key_range::successor;
use crate::store::versioned::layout;
use crate::store::versioned::store::VersionedStore;
use crate::store::versioned::version::Version;
use crate::time::Timestamp;
use crate::transaction::{Scan, Step};

/// How many rows of a walk make a sample.
const SAMPLE: usize = 64;

/// For how many changed keys the scan seeks before it walks again, for the next sample.
const SOUGHT: usize = 1024;

/// About how many rows of a walk cost as much as a seek and the rows read after it.
const SEEK: usize = 6;

/// How many older versions a walk skips one by one before it seeks to the next key.
const STEPS: usize = 8;

/// A scan of the version of each key that was valid at a moment.
pub(in crate::store::versioned) struct AsOfScan {
    versions: Scan,
    reader: AsOfReader,
}

/// The scan without its position in `versions`.
struct AsOfReader {
    store: VersionedStore,
    at: i64,
    latest: Scan,
    way: Way,
    current: AsOfKey,
    /// A buffer for the user's key.
    key: Vec<u8>,
}

/// How the scan finds the next key.
enum Way {
    /// It walks over the rows of `versions`.
    Rows(Sample),
    /// It reads `latest`, and seeks in `versions` for this many more keys.
    Keys { left: usize },
}

/// What a walk has read since it began or since the last sample.
#[derive(Default)]
struct Sample {
    rows: usize,
    keys: usize,
    /// How many of the keys have changed after the moment.
    changed: usize,
}

impl Sample {
    fn is_full(&self) -> bool {
        self.rows >= SAMPLE
    }

    /// Whether it would have been cheaper to read these keys from `latest`.
    fn is_costly(&self) -> bool {
        self.rows > self.keys + SEEK * self.changed
    }
}

/// What the scan does after a row.
enum AsOfStep {
    Next,
    /// Continues at this row key, which is ahead.
    Seek(Vec<u8>),
    /// Continues at this row key, which is behind.
    SeekBack(Vec<u8>),
    /// The visitor has stopped the scan.
    Stop,
    End,
}

impl AsOfScan {
    /// A scan of rows of `versions` and `latest`, which have the same view of the store.
    pub(in crate::store::versioned) fn new(
        store: &VersionedStore,
        [versions, latest]: [Scan; 2],
        at: i64,
    ) -> Self {
        Self {
            versions,
            reader: AsOfReader {
                store: store.clone(),
                at,
                latest,
                way: Way::Rows(Sample::default()),
                current: AsOfKey::default(),
                key: Vec::new(),
            },
        }
    }

    /// Calls `visit` with each version until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan.
    pub(in crate::store::versioned) fn for_each(
        &mut self,
        visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool,
    ) -> Result<bool> {
        let Self { versions, reader } = self;
        loop {
            if reader.is_between_keys() {
                match reader.next_changed(visit)? {
                    AsOfStep::Seek(row_key) => versions.turn(&row_key, false)?,
                    AsOfStep::Stop => return Ok(true),
                    _ => return Ok(false),
                }
            }
            let mut end = Ok(AsOfStep::End);
            let paused = versions.for_each(&mut |row_key, row| match reader
                .read_row(row_key, row, visit)
            {
                Ok(AsOfStep::Next) => Step::Next,
                Ok(AsOfStep::Seek(row_key)) => Step::Seek(row_key),
                other => {
                    end = other;
                    Step::Pause
                }
            })?;
            match end? {
                AsOfStep::SeekBack(row_key) => versions.turn(&row_key, false)?,
                AsOfStep::Stop => return Ok(true),
                // The key that was sought has no version at the moment, and no row follows.
                _ if !paused && reader.is_reading_keys() => reader.current.done = true,
                _ => return Ok(false),
            }
        }
    }
}

impl AsOfReader {
    fn is_reading_keys(&self) -> bool {
        matches!(self.way, Way::Keys { .. })
    }

    /// Whether the next key is to be read from `latest`.
    fn is_between_keys(&self) -> bool {
        self.is_reading_keys() && self.current.done
    }

    /// Reads a row of `versions`.
    fn read_row(
        &mut self,
        row_key: &[u8],
        row: &[u8],
        visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool,
    ) -> Result<AsOfStep> {
        let (part, begin, row) = layout::stored_version(row_key, row)?;
        let (at, is_new) = (self.at, part != self.current.part);
        match &mut self.way {
            // The key that was sought has no version at the moment.
            Way::Keys { .. } if is_new => return self.next_changed(visit),
            Way::Keys { .. } => {}
            Way::Rows(sample) => {
                sample.rows += 1;
                if is_new {
                    self.current.enter(part, begin);
                    sample.keys += 1;
                    sample.changed += usize::from(begin > at);
                }
            }
        }
        if begin > at {
            self.current.pass(begin);
        } else if !self.current.done {
            if self.is_reading_keys() && self.current.seeks_further() {
                return Ok(AsOfStep::SeekBack(self.current.row_key(at)));
            }
            self.current.done = true;
            let newer = self.current.newer;
            if let Some(newer) = newer {
                self.store.inner.seek_hint.learn(newer.saturating_sub(at));
            }
            if let Some(value) = layout::value(row) {
                let version = Version {
                    value,
                    timestamp: Timestamp(begin),
                    valid_to: newer.map(Timestamp),
                };
                if !visit(layout::key(part, &mut self.key), version) {
                    return Ok(AsOfStep::Stop);
                }
            }
        }
        match &mut self.way {
            Way::Keys { .. } if self.current.done => return self.next_changed(visit),
            Way::Keys { .. } if self.current.seeks_closer(at) => {
                return Ok(AsOfStep::Seek(self.current.row_key(at)));
            }
            Way::Keys { .. } => {}
            Way::Rows(sample) if sample.is_full() && sample.is_costly() => {
                return self.read_keys(visit);
            }
            Way::Rows(sample) => {
                if sample.is_full() {
                    *sample = Sample::default();
                }
                if self.current.done {
                    self.current.steps += 1;
                    if self.current.steps > STEPS
                        && let Some(next) = successor(&self.current.part)
                    {
                        return Ok(AsOfStep::Seek(next));
                    }
                }
            }
        }
        Ok(AsOfStep::Next)
    }

    /// Ends the walk: the keys after the current one are read from `latest`.
    fn read_keys(&mut self, visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool) -> Result<AsOfStep> {
        let Some(next) = successor(&self.current.part) else {
            return Ok(AsOfStep::Next);
        };
        self.latest.turn(&next, false)?;
        self.way = Way::Keys { left: SOUGHT };
        if self.current.done {
            return self.next_changed(visit);
        }
        self.current
            .seek_from_here(self.store.inner.seek_hint.get());
        Ok(AsOfStep::Seek(self.current.row_key(self.at)))
    }

    /// Reads `latest` up to the next key that has changed after the moment. The keys before it have
    /// their newest version at the moment.
    fn next_changed(
        &mut self,
        visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool,
    ) -> Result<AsOfStep> {
        let Self {
            store,
            at,
            latest,
            way,
            current,
            key,
        } = self;
        current.done = true;
        let mut end = Ok(AsOfStep::End);
        latest.for_each(&mut |part, row| match layout::stored_latest(part, row) {
            Ok((begin, _)) if begin > *at => {
                current.enter(part, begin);
                Step::Pause
            }
            Ok((begin, row)) => {
                let Some(value) = layout::value(row) else {
                    return Step::Next;
                };
                let version = Version {
                    value,
                    timestamp: Timestamp(begin),
                    valid_to: None,
                };
                if visit(layout::key(part, key), version) {
                    Step::Next
                } else {
                    end = Ok(AsOfStep::Stop);
                    Step::Pause
                }
            }
            Err(error) => {
                end = Err(error);
                Step::Pause
            }
        })?;
        if current.done {
            return end;
        }
        match way {
            Way::Keys { left } if *left > 0 => {
                *left -= 1;
                current.ahead = store.inner.seek_hint.get();
                Ok(AsOfStep::Seek(current.row_key(*at)))
            }
            _ => {
                *way = Way::Rows(Sample::default());
                Ok(AsOfStep::Seek(std::mem::take(&mut current.part)))
            }
        }
    }
}
