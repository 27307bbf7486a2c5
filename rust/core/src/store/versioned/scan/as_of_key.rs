//! A key during a scan as of a moment: where to seek for its version at the moment.

use crate::store::versioned::layout;

/// How many newer versions are passed before another seek. The key has more versions per time than
/// the keys from which the distance of the seek was learned.
const WALK: usize = 16;

/// The current key of a scan, and what is known of its versions.
#[derive(Default)]
pub(super) struct AsOfKey {
    pub(super) part: Vec<u8>,
    /// Begin of a version that is newer than the moment; that of the newest one at first.
    upper: i64,
    /// Begin of the version that was passed last. All passed versions are newer than the moment.
    pub(super) newer: Option<i64>,
    /// Whether the version at the moment was found.
    pub(super) done: bool,
    /// How many versions were stepped over: newer ones since the last seek, or older ones.
    pub(super) steps: usize,
    /// How far after the moment the first seek goes.
    pub(super) ahead: i64,
    /// How many seeks have found no newer version.
    short: u32,
}

impl AsOfKey {
    /// Enters a key; `newest` is the begin of its newest version.
    pub(super) fn enter(&mut self, part: &[u8], newest: i64) {
        self.part.clear();
        self.part.extend_from_slice(part);
        self.upper = newest;
        self.newer = None;
        self.done = false;
        self.steps = 0;
        self.short = 0;
    }

    /// Passes a version that is newer than the moment.
    pub(super) fn pass(&mut self, begin: i64) {
        self.newer = Some(begin);
        self.steps += 1;
    }

    /// The row key at which the scan looks for the next version after the moment.
    pub(super) fn row_key(&self, at: i64) -> Vec<u8> {
        let ahead = match self.short {
            0 => self.ahead,
            1 => self.ahead.saturating_mul(8),
            _ => i64::MAX,
        };
        layout::row_key(&self.part, at.saturating_add(ahead).min(self.upper))
    }

    /// Whether the last seek has passed the end of the version at the moment, and the next one must
    /// go further ahead. The third seek goes to a newer version.
    pub(super) fn seeks_further(&mut self) -> bool {
        let is_further = self.newer.is_none() && self.short < 2;
        self.short += u32::from(is_further);
        is_further
    }

    /// Whether many versions have been passed, and the next seek must go less far ahead.
    pub(super) fn seeks_closer(&mut self, at: i64) -> bool {
        let Some(begin) = self.newer else {
            return false;
        };
        let distance = begin.saturating_sub(at);
        if self.steps < WALK || distance <= WALK as i64 {
            return false;
        }
        self.seek_from_here(distance / 8);
        true
    }

    /// Begins to seek; no version before the one that was passed last is read again.
    pub(super) fn seek_from_here(&mut self, ahead: i64) {
        self.upper = self.newer.take().unwrap_or(self.upper);
        self.ahead = ahead;
        self.steps = 0;
        self.short = 0;
    }
}
