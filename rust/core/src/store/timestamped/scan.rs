//! A scan over values with timestamps.

use super::stamped::Stamped;
use crate::error::Result;
use crate::transaction::merge::nearest;
use crate::transaction::{KeyChunk, Scan, Step};

/// A scan over values with timestamps, as they were when it was opened.
pub struct StampedScan {
    stamped: PeekedScan,
    plain: Option<PeekedScan>,
    reverse: bool,
}

/// The rows of one table, and a copy of the next one.
struct PeekedScan {
    scan: Scan,
    next: Option<(Vec<u8>, Vec<u8>)>,
}

impl PeekedScan {
    fn new(scan: Scan) -> Self {
        Self { scan, next: None }
    }

    fn peek(&mut self) -> Result<Option<&[u8]>> {
        let Self { scan, next } = self;
        if next.is_none() {
            scan.for_each(&mut |key, value| {
                *next = Some((key.to_vec(), value.to_vec()));
                Step::Pause
            })?;
        }
        Ok(next.as_ref().map(|(key, _)| key.as_slice()))
    }
}

impl StampedScan {
    /// A scan of timestamped rows and, if there are any, of the rows of a former plain store.
    pub(super) fn new(stamped: Scan, plain: Option<Scan>, reverse: bool) -> Self {
        Self {
            stamped: PeekedScan::new(stamped),
            plain: plain.map(PeekedScan::new),
            reverse,
        }
    }

    /// Calls `f` with the key of each remaining row. Keys are read in chunks and no read runs
    /// during a call, so `f` may write to the transaction.
    pub fn each_key(&mut self, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut keys, mut is_stopped) = (KeyChunk::default(), true);
        while is_stopped {
            is_stopped = self.for_each(&mut |key, _| keys.push(key))?;
            keys.drain(f)?;
        }
        Ok(())
    }

    /// Calls `visit` with each row until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan, which can then be resumed.
    pub fn for_each(&mut self, visit: &mut dyn FnMut(&[u8], Stamped<'_>) -> bool) -> Result<bool> {
        let Self {
            stamped,
            plain,
            reverse,
        } = self;
        let Some(plain) = plain else {
            return stamped.scan.for_each(&mut |key, row| {
                if visit(key, Stamped::decode(row)) {
                    Step::Next
                } else {
                    Step::Pause
                }
            });
        };
        loop {
            // A key is in only one of the two tables.
            let Some(next) = nearest([stamped.peek()?, plain.peek()?], *reverse) else {
                return Ok(false);
            };
            let plain_is_next = next == 1;
            let go_on = match if plain_is_next {
                plain.next.take()
            } else {
                stamped.next.take()
            } {
                Some((key, row)) if plain_is_next => visit(&key, Stamped::plain(&row)),
                Some((key, row)) => visit(&key, Stamped::decode(&row)),
                None => true,
            };
            if !go_on {
                return Ok(true);
            }
        }
    }
}
