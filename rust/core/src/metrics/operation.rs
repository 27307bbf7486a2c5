//! Calls of a store's methods, and how long they took.

use super::{MetricsLevel, Sheet, Window};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A method that is counted.
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

    /// The name that its figures begin with.
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

    /// Whether a call has many records: then reading the clock costs nothing beside it, and the
    /// records are counted, too.
    pub(super) fn has_records(self) -> bool {
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

    /// Whether its calls are timed at a level.
    fn is_timed(self, level: MetricsLevel) -> bool {
        self.has_records() || level >= MetricsLevel::Debug
    }
}

/// What is known of one operation's calls.
pub(crate) struct OperationCounts {
    calls: AtomicU64,
    records: AtomicU64,
    nanos: AtomicU64,
    /// The longest since the window's second mark.
    nanos_max: AtomicU64,
    timed: bool,
    window: Mutex<Recently>,
}

struct Recently {
    window: Window<3>,
    /// The longest between the window's marks.
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
            window: Mutex::new(Recently {
                window: Window::new(Instant::now(), [0; 3]),
                nanos_max: 0,
            }),
        }
    }

    pub(super) fn at_level(operation: Operation, level: MetricsLevel) -> Self {
        Self::new(operation.is_timed(level))
    }

    /// Counts a call, which ends when the result is dropped.
    #[inline]
    pub(crate) fn begin(&self) -> Call<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call {
            counts: self,
            started: self.timed.then(Instant::now),
            records: 0,
        }
    }

    /// Counts a call that took so long.
    pub(crate) fn add(&self, took: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.add_time(took);
    }

    fn add_time(&self, took: Duration) {
        let nanos = took.as_nanos() as u64;
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    /// The figures of one of a store's operations, with the records of batches.
    pub(super) fn push_operation(&self, sheet: &mut Sheet, operation: Operation, now: Instant) {
        let name = operation.name();
        self.look(now)
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

    pub(crate) fn look(&self, now: Instant) -> Calls {
        let mut recently = self.window.lock();
        let totals =
            [&self.calls, &self.records, &self.nanos].map(|total| total.load(Ordering::Relaxed));
        let recent = recently.window.look(now, totals);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let longest = recently
            .nanos_max
            .max(self.nanos_max.load(Ordering::Relaxed));
        if recent.moved {
            recently.nanos_max = self.nanos_max.swap(0, Ordering::Relaxed);
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

/// An operation's calls, as one look has found them; times are seconds.
pub(crate) struct Calls {
    rate: f64,
    total: u64,
    pub(super) mean: f64,
    pub(super) longest: f64,
    timed: bool,
}

impl Calls {
    /// The figures of `<name>-rate`, `-total` and, where calls are timed, `-latency-avg` and
    /// `-latency-max`.
    pub(crate) fn push_to(&self, sheet: &mut Sheet, name: &str, what: &str) {
        sheet.push(
            format!("{name}-rate"),
            self.rate,
            "calls",
            format!("{what}, a second"),
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
                format!("{what}: mean time of one"),
            );
            sheet.push(
                format!("{name}-latency-max"),
                self.longest,
                "seconds",
                format!("{what}: longest time of one"),
            );
        }
    }
}

/// A call under way.
#[must_use]
pub(crate) struct Call<'a> {
    counts: &'a OperationCounts,
    started: Option<Instant>,
    records: u64,
}

impl Call<'_> {
    /// Notes that the call has so many records.
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
