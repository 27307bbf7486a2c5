//! RocksDB's statistics of one database, which count every call.

use rust_rocksdb::Options;
use rust_rocksdb::statistics::{Histogram, StatsLevel, Ticker};

/// RocksDB's statistics of one database, if they are switched on.
#[derive(Default)]
pub(super) struct Statistics {
    /// Options that share the statistics with the database.
    options: Option<Options>,
}

/// Totals since the database was opened; times are microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tickers {
    pub(crate) io: IoTickers,
    pub(crate) stall_micros: u64,
    pub(crate) file_opens: u64,
    pub(crate) file_errors: u64,
    pub(crate) memtable: HitsAndMisses,
    pub(crate) data_blocks: HitsAndMisses,
    pub(crate) index_blocks: HitsAndMisses,
    pub(crate) filter_blocks: HitsAndMisses,
}

/// Bytes read and written since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IoTickers {
    pub(crate) bytes_written: u64,
    pub(crate) bytes_read: u64,
    pub(crate) flushed_bytes: u64,
    pub(crate) compaction_bytes_written: u64,
    pub(crate) compaction_bytes_read: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HitsAndMisses {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// Durations of flushes, compactions or write stalls since the database was opened, in
/// microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct JobTimes {
    pub(crate) mean: f64,
    pub(crate) shortest: f64,
    pub(crate) longest: f64,
}

/// An event whose duration RocksDB records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Flush,
    Compaction,
    WriteStall,
}

impl Statistics {
    /// Switches statistics on, if `wanted`, in the options of a database before it is opened.
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

    pub(super) fn tickers(&self) -> Option<Tickers> {
        let options = self.options.as_ref()?;
        let count = |ticker| options.get_ticker_count(ticker);
        let pair = |hits, misses| HitsAndMisses {
            hits: count(hits),
            misses: count(misses),
        };
        Some(Tickers {
            io: IoTickers {
                bytes_written: count(Ticker::BytesWritten),
                bytes_read: count(Ticker::BytesRead)
                    + count(Ticker::NumberMultigetBytesRead)
                    + count(Ticker::IterBytesRead),
                flushed_bytes: count(Ticker::FlushWriteBytes),
                compaction_bytes_written: count(Ticker::CompactWriteBytes),
                compaction_bytes_read: count(Ticker::CompactReadBytes),
            },
            stall_micros: count(Ticker::StallMicros),
            file_opens: count(Ticker::NoFileOpens),
            file_errors: count(Ticker::NoFileErrors),
            memtable: pair(Ticker::MemtableHit, Ticker::MemtableMiss),
            data_blocks: pair(Ticker::BlockCacheDataHit, Ticker::BlockCacheDataMiss),
            index_blocks: pair(Ticker::BlockCacheIndexHit, Ticker::BlockCacheIndexMiss),
            filter_blocks: pair(Ticker::BlockCacheFilterHit, Ticker::BlockCacheFilterMiss),
        })
    }

    pub(super) fn job_times(&self, job: Job) -> Option<JobTimes> {
        let options = self.options.as_ref()?;
        let histogram = options.get_histogram_data(match job {
            Job::Flush => Histogram::FlushTime,
            Job::Compaction => Histogram::CompactionTime,
            Job::WriteStall => Histogram::WriteStall,
        });
        Some(JobTimes {
            mean: histogram.average(),
            // RocksDB's minimum of no values is the largest number.
            shortest: histogram.min().min(histogram.max()),
            longest: histogram.max(),
        })
    }
}
