//! Waiting rows that have been read from a store.

use std::ops::Range;

use super::record::WaitingRow;

/// Waiting rows of some requests, in the order of the requests, then of time. All payloads are in
/// one buffer.
#[derive(Default)]
pub struct FoundWaitingRows {
    rows: Vec<FoundWaitingRow>,
    payloads: Vec<u8>,
}

struct FoundWaitingRow {
    /// The number of the request.
    number: u32,
    time: i64,
    matched: bool,
    payload: Range<usize>,
}

impl FoundWaitingRows {
    /// Adds a row. Its request is that of the row before or a later one.
    pub fn push(&mut self, number: u32, time: i64, row: WaitingRow<'_>) {
        let start = self.payloads.len();
        self.payloads.extend_from_slice(row.payload);
        self.rows.push(FoundWaitingRow {
            number,
            time,
            matched: row.matched,
            payload: start..self.payloads.len(),
        });
    }

    /// Returns how much memory the rows need, in bytes.
    pub fn bytes(&self) -> usize {
        self.payloads.len() + self.rows.len() * size_of::<FoundWaitingRow>()
    }

    /// Returns a cursor before the first row.
    pub fn cursor(&self) -> FoundCursor<'_> {
        FoundCursor {
            payloads: &self.payloads,
            rest: &self.rows,
        }
    }
}

/// Passes the rows of each request, in the order of the requests.
pub struct FoundCursor<'a> {
    payloads: &'a [u8],
    rest: &'a [FoundWaitingRow],
}

impl<'a> FoundCursor<'a> {
    /// Returns the times and the rows of a request. All requests before it have been passed.
    pub fn take(&mut self, number: u32) -> impl Iterator<Item = (i64, WaitingRow<'a>)> + use<'a> {
        let is_of_it = |row: &&FoundWaitingRow| row.number == number;
        let count = self.rest.iter().take_while(is_of_it).count();
        let (rows, rest) = self.rest.split_at(count);
        self.rest = rest;
        let payloads = self.payloads;
        rows.iter().map(move |row| {
            let payload = &payloads[row.payload.clone()];
            let matched = row.matched;
            (row.time, WaitingRow { matched, payload })
        })
    }
}
