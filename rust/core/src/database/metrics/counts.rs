//! Counts that a database updates as it runs.

use crate::metrics::{OperationCounts, RateWindow};
use crate::rocks::{HitsAndMisses, RocksDb, Tickers};
use parking_lot::Mutex;
use std::time::Instant;

/// Counts of a database that belong to no store.
pub(in crate::database) struct DatabaseCounts {
    pub(in crate::database) commits: OperationCounts,
    /// RocksDB's totals, in the order of [`totals`].
    pub(super) rocksdb: Mutex<RateWindow<14>>,
}

impl DatabaseCounts {
    pub(in crate::database) fn new(rocks: &RocksDb) -> Self {
        let so_far = rocks.tickers().unwrap_or_default();
        Self {
            commits: OperationCounts::new(true),
            rocksdb: Mutex::new(RateWindow::new(Instant::now(), totals(&so_far))),
        }
    }
}

/// RocksDB's totals whose rates and ratios are figures.
pub(super) fn totals(tickers: &Tickers) -> [u64; 14] {
    let pairs = [
        tickers.memtable,
        tickers.data_blocks,
        tickers.index_blocks,
        tickers.filter_blocks,
    ];
    let [memtable, data, index, filter] =
        pairs.map(|HitsAndMisses { hits, misses }| [hits, misses]);
    [
        tickers.io.bytes_written,
        tickers.io.bytes_read,
        tickers.io.flushed_bytes,
        tickers.io.compaction_bytes_written,
        tickers.io.compaction_bytes_read,
        tickers.stall_micros,
        memtable[0],
        memtable[1],
        data[0],
        data[1],
        index[0],
        index[1],
        filter[0],
        filter[1],
    ]
}
