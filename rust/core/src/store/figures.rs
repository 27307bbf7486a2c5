//! The figures of a store, by its kind.

use crate::metrics::{Count, Operation, Sheet, StoreCounts};
use crate::store_spec::StoreKind;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Adds the figures of a store of this kind.
///
/// `dropped` is a sample of the store's refused writes. The database's figure is the sum of these
/// samples.
pub(crate) fn push_figures(
    counts: &StoreCounts,
    sheet: &mut Sheet,
    kind: &StoreKind,
    dropped: Count,
    now: Instant,
) {
    for operation in operations(kind) {
        counts
            .operation(*operation)
            .push_operation(sheet, *operation, now);
    }
    if !matches!(kind, StoreKind::KeyValue | StoreKind::TimestampedKeyValue) {
        sheet.push_count(
            "dropped-records",
            dropped,
            "records",
            "Writes refused for being older than the retention",
        );
        sheet.push_count(
            "expired-segments",
            counts.expired_segments.sample(now),
            "segments",
            "Segments of time that have expired",
        );
    }
    match kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => {}
        StoreKind::Versioned { .. } => {
            let reads = "Reads as of a moment before the history, which left out keys";
            sheet.push_count(
                "expired-reads",
                counts.expired_reads.sample(now),
                "calls",
                reads,
            );
        }
        StoreKind::Window { .. } | StoreKind::Session { .. } => {
            sheet.push_count(
                "expired-window-record-drop",
                dropped,
                "records",
                "The same as dropped-records, under its older name",
            );
        }
    }
    let (open, oldest) = counts.open_iterators();
    sheet.push(
        "num-open-iterators",
        open as u64,
        "iterators",
        "Iterators and Arrow readers that are open",
    );
    sheet.push(
        "oldest-iterator-open-since-ms",
        oldest.map_or(0, epoch_millis),
        "epoch milliseconds",
        "When the oldest open iterator was opened; 0: none is open",
    );
    let times = counts.iterator_times.sample(now);
    sheet.push(
        "iterator-duration-avg",
        times.mean,
        "seconds",
        "Mean time from the opening of an iterator to its end",
    );
    sheet.push(
        "iterator-duration-max",
        times.longest,
        "seconds",
        "Longest time from the opening of an iterator to its end",
    );
}

fn epoch_millis(moment: Instant) -> u64 {
    let then = SystemTime::now()
        .checked_sub(moment.elapsed())
        .and_then(|then| then.duration_since(UNIX_EPOCH).ok());
    then.map_or(0, |since| since.as_millis() as u64)
}

/// Returns the operations that stores of a kind have.
fn operations(kind: &StoreKind) -> &'static [Operation] {
    use Operation::*;
    match kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => &[
            Put,
            PutIfAbsent,
            PutAll,
            Delete,
            DeleteRange,
            Get,
            Range,
            All,
            PrefixScan,
            PutBatch,
            DeleteBatch,
            GetBatch,
            Restore,
        ],
        StoreKind::Versioned { .. } => &[
            Put,
            Delete,
            Get,
            Versions,
            VersionsRange,
            Scan,
            PutBatch,
            GetBatch,
            ApplyBatch,
            Restore,
        ],
        StoreKind::Window { .. } => &[Put, Fetch, All, PutBatch, FetchBatch, Restore],
        StoreKind::Session { .. } => &[Put, Remove, Fetch, PutBatch, FetchBatch, Restore],
    }
}
