//! RocksDB's own figures: properties, which cost nothing until they are asked for, and statistics,
//! which count every call.

use super::family::Family;
use super::rocks_db::RocksDb;
use crate::error::Result;
use rust_rocksdb::Options;
use rust_rocksdb::statistics::{Histogram, StatsLevel, Ticker};

/// RocksDB's counts of one database, where they are kept.
#[derive(Default)]
pub(super) struct Statistics {
    /// Shares the counts with the database.
    options: Option<Options>,
}

impl Statistics {
    /// Switches them on in the options that a database is about to be opened with.
    pub(super) fn new(options: &mut Options, wanted: bool) -> Self {
        if !wanted {
            return Self::default();
        }
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptDetailedTimers);
        Self {
            options: Some(options.clone()),
        }
    }
}

/// Totals since the database was opened; times are microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tickers {
    pub(crate) bytes_written: u64,
    pub(crate) bytes_read: u64,
    pub(crate) flushed_bytes: u64,
    pub(crate) compaction_bytes_written: u64,
    pub(crate) compaction_bytes_read: u64,
    pub(crate) stall_micros: u64,
    pub(crate) file_opens: u64,
    pub(crate) file_errors: u64,
    pub(crate) memtable: HitsAndMisses,
    pub(crate) data_blocks: HitsAndMisses,
    pub(crate) index_blocks: HitsAndMisses,
    pub(crate) filter_blocks: HitsAndMisses,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HitsAndMisses {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// Times of what happened since the database was opened, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// What goes on in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Flush,
    Compaction,
    WriteStall,
}

impl RocksDb {
    /// RocksDB's totals; `None` where they are not kept.
    pub(crate) fn tickers(&self) -> Option<Tickers> {
        let options = self.statistics.options.as_ref()?;
        let count = |ticker| options.get_ticker_count(ticker);
        let pair = |hits, misses| HitsAndMisses {
            hits: count(hits),
            misses: count(misses),
        };
        Some(Tickers {
            bytes_written: count(Ticker::BytesWritten),
            bytes_read: count(Ticker::BytesRead)
                + count(Ticker::NumberMultigetBytesRead)
                + count(Ticker::IterBytesRead),
            flushed_bytes: count(Ticker::FlushWriteBytes),
            compaction_bytes_written: count(Ticker::CompactWriteBytes),
            compaction_bytes_read: count(Ticker::CompactReadBytes),
            stall_micros: count(Ticker::StallMicros),
            file_opens: count(Ticker::NoFileOpens),
            file_errors: count(Ticker::NoFileErrors),
            memtable: pair(Ticker::MemtableHit, Ticker::MemtableMiss),
            data_blocks: pair(Ticker::BlockCacheDataHit, Ticker::BlockCacheDataMiss),
            index_blocks: pair(Ticker::BlockCacheIndexHit, Ticker::BlockCacheIndexMiss),
            filter_blocks: pair(Ticker::BlockCacheFilterHit, Ticker::BlockCacheFilterMiss),
        })
    }

    /// How long such jobs took; `None` where it is not kept.
    pub(crate) fn times(&self, job: Job) -> Option<Times> {
        let options = self.statistics.options.as_ref()?;
        let histogram = options.get_histogram_data(match job {
            Job::Flush => Histogram::FlushTime,
            Job::Compaction => Histogram::CompactionTime,
            Job::WriteStall => Histogram::WriteStall,
        });
        // Without any, the least is the greatest number there is.
        Some(Times {
            mean: histogram.average(),
            least: histogram.min().min(histogram.max()),
            most: histogram.max(),
        })
    }

    /// A sum over some families of one of RocksDB's integer properties.
    pub(crate) fn families_property(&self, families: &[Family], name: &str) -> Result<u64> {
        families
            .iter()
            .map(|family| self.family_property(*family, name))
            .sum()
    }
}
