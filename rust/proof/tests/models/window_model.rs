//! The model of window and session stores: a map in the order of scans.

use std::collections::BTreeMap;

/// The retention of the stores under test.
pub const RETENTION: i64 = 40;

/// Maps (time, key, more) to a value, in the order of scans. `time` is a window's start or a
/// session's end. `more` is a duplicate's number, a session's start, or 0.
#[derive(Clone, Default, Debug)]
pub struct WindowModel {
    pub rows: BTreeMap<(i64, Vec<u8>, i64), u8>,
    pub stream_time: Option<i64>,
    pub sequence: i64,
}

impl WindowModel {
    pub fn horizon(&self) -> i64 {
        self.stream_time
            .map_or(i64::MIN, |time| time - RETENTION + 1)
    }

    pub fn put(&mut self, time: i64, key: Vec<u8>, more: i64, value: Option<u8>) -> bool {
        if time < self.horizon() {
            return false;
        }
        self.stream_time = self.stream_time.max(Some(time));
        match value {
            Some(value) => self.rows.insert((time, key, more), value),
            None => self.rows.remove(&(time, key, more)),
        };
        true
    }

    pub fn visible(&self) -> impl DoubleEndedIterator<Item = (&(i64, Vec<u8>, i64), &u8)> {
        let horizon = self.horizon();
        self.rows
            .iter()
            .filter(move |((time, _, _), _)| *time >= horizon)
    }

    pub fn get(&self, time: i64, key: &[u8], more: i64) -> Option<u8> {
        if time < self.horizon() {
            None
        } else {
            self.rows.get(&(time, key.to_vec(), more)).copied()
        }
    }
}
