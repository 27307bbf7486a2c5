//! Calls of a store's methods: how many, and how long they took.

use crate::metrics::figure::Sheet;
use crate::metrics::level::MetricsLevel;
use crate::metrics::window::RateWindow;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A method whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Put,
    PutIfAbsent,
    PutAll,
    Delete,
    DeleteRange,
    Remove,
    Get,
    Fetch,
    Range,
    All,
    PrefixScan,
    Versions,
    VersionsRange,
    Scan,
    PutBatch,
    DeleteBatch,
    GetBatch,
    FetchBatch,
    ApplyBatch,
    Restore,
}

impl Operation {
    pub(super) const ALL: [Self; 20] = [
        Self::Put,
        Self::PutIfAbsent,
        Self::PutAll,
        Self::Delete,
        Self::DeleteRange,
        Self::Remove,
        Self::Get,
        Self::Fetch,
        Self::Range,
        Self::All,
        Self::PrefixScan,
        Self::Versions,
        Self::VersionsRange,
        Self::Scan,
        Self::PutBatch,
        Self::DeleteBatch,
        Self::GetBatch,
        Self::FetchBatch,
        Self::ApplyBatch,
        Self::Restore,
    ];

    /// Returns the name that the operation's figures begin with.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::PutIfAbsent => "put-if-absent",
            Self::PutAll => "put-all",
            Self::Delete => "delete",
            Self::DeleteRange => "delete-range",
            Self::Remove => "remove",
            Self::Get => "get",
            Self::Fetch => "fetch",
            Self::Range => "range",
            Self::All => "all",
            Self::PrefixScan => "prefix-scan",
            Self::Versions => "versions",
            Self::VersionsRange => "versions-range",
            Self::Scan => "scan",
            Self::PutBatch => "put-batch",
            Self::DeleteBatch => "delete-batch",
            Self::GetBatch => "get-batch",
            Self::FetchBatch => "fetch-batch",
            Self::ApplyBatch => "apply-batch",
            Self::Restore => "restore",
        }
    }

    /// Whether a call has many records. Such calls are always timed, since the clock costs little
    /// compared with the call, and their records are counted, too.
    pub(crate) fn has_records(self) -> bool {
        match self {
            Self::PutAll | Self::Restore => true,
            Self::PutBatch
            | Self::DeleteBatch
            | Self::GetBatch
            | Self::FetchBatch
            | Self::ApplyBatch => true,
            Self::Put
            | Self::PutIfAbsent
            | Self::Delete
            | Self::DeleteRange
            | Self::Remove
            | Self::Get
            | Self::Fetch => false,
            Self::Range
            | Self::All
            | Self::PrefixScan
            | Self::Versions
            | Self::VersionsRange
            | Self::Scan => false,
        }
    }

    /// Whether calls are timed at a level.
    fn is_timed(self, level: MetricsLevel) -> bool {
        self.has_records() || level >= MetricsLevel::Debug
    }
}

/// The counts of one operation's calls.
pub(crate) struct OperationCounts {
    calls: AtomicU64,
    records: AtomicU64,
    nanos: AtomicU64,
    /// The longest call since the window's mark `second`.
    nanos_max: AtomicU64,
    timed: bool,
    window: Mutex<RecentCalls>,
}

struct RecentCalls {
    window: RateWindow<3>,
    /// The longest call between the window's marks `first` and `second`.
    nanos_max: u64,
}

impl OperationCounts {
    pub(crate) fn new(timed: bool) -> Self {
        Self {
            calls: AtomicU64::new(0),
            records: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            nanos_max: AtomicU64::new(0),
            timed,
            window: Mutex::new(RecentCalls {
                window: RateWindow::new(Instant::now(), [0; 3]),
                nanos_max: 0,
            }),
        }
    }

    pub(super) fn at_level(operation: Operation, level: MetricsLevel) -> Self {
        Self::new(operation.is_timed(level))
    }

    /// Counts a call. The call ends when the result is dropped.
    #[inline]
    pub(crate) fn begin(&self) -> Call<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call {
            counts: self,
            started: self.timed.then(Instant::now),
            records: 0,
        }
    }

    /// Counts a call that took this long.
    pub(crate) fn add(&self, took: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.add_time(took);
    }

    fn add_time(&self, took: Duration) {
        let nanos = took.as_nanos() as u64;
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Adds the figures of one of a store's operations, with the records of batches.
    pub(crate) fn push_operation(&self, sheet: &mut Sheet, operation: Operation, now: Instant) {
        let name = operation.name();
        self.sample(now)
            .push_to(sheet, name, &format!("Calls of {name}"));
        if operation.has_records() {
            let records = self.records.load(Ordering::Relaxed);
            sheet.push(
                format!("{name}-records-total"),
                records,
                "records",
                format!("Records of all calls of {name}"),
            );
        }
    }

    /// Returns the calls so far; may move the marks of the window.
    pub(crate) fn sample(&self, now: Instant) -> Calls {
        let mut recent_calls = self.window.lock();
        let totals =
            [&self.calls, &self.records, &self.nanos].map(|total| total.load(Ordering::Relaxed));
        let recent = recent_calls.window.sample(now, totals);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let longest = recent_calls
            .nanos_max
            .max(self.nanos_max.load(Ordering::Relaxed));
        if recent.moved {
            recent_calls.nanos_max = self.nanos_max.swap(0, Ordering::Relaxed);
        }
        Calls {
            rate: recent.rate(0),
            total: totals[0],
            mean: seconds(recent.counts[2]) / recent.counts[0].max(1) as f64,
            longest: seconds(longest),
            timed: self.timed,
        }
    }
}

/// A sample of an operation's calls; times are in seconds.
pub(crate) struct Calls {
    rate: f64,
    total: u64,
    pub(crate) mean: f64,
    pub(crate) longest: f64,
    timed: bool,
}

impl Calls {
    /// Adds the figures `<name>-rate`, `-total` and, if calls are timed, `-latency-avg` and
    /// `-latency-max`.
    pub(crate) fn push_to(&self, sheet: &mut Sheet, name: &str, what: &str) {
        sheet.push(
            format!("{name}-rate"),
            self.rate,
            "calls",
            format!("{what}, per second"),
        );
        sheet.push(
            format!("{name}-total"),
            self.total,
            "calls",
            what.to_owned(),
        );
        if self.timed {
            sheet.push(
                format!("{name}-latency-avg"),
                self.mean,
                "seconds",
                format!("{what}: mean time per call"),
            );
            sheet.push(
                format!("{name}-latency-max"),
                self.longest,
                "seconds",
                format!("{what}: longest time of a call"),
            );
        }
    }
}

/// A call in progress.
#[must_use]
pub(crate) struct Call<'a> {
    counts: &'a OperationCounts,
    started: Option<Instant>,
    records: u64,
}

impl Call<'_> {
    /// Sets the number of the call's records.
    pub(crate) fn records(&mut self, records: usize) {
        self.records = records as u64;
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(started) = self.started else { return };
        self.counts.add_time(started.elapsed());
        self.counts
            .records
            .fetch_add(self.records, Ordering::Relaxed);
    }
}
