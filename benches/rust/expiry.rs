//! History that goes on for twice its retention: what is left on disk of what has expired, and what its going costs the puts.

use super::{History, measure};
use holdfast_core::{StoreKind, Task, Timestamp};
use measure::{Settings, TRANSACTION, commit, figure, open, print, timed};
use std::path::Path;

const SEGMENTS: usize = 24;

/// As many versions as one retention holds come before anything expires, and as many again while it does.
struct Run<'a> {
    history: &'a History,
    retention: i64,
}

impl Run<'_> {
    fn open(&self, path: &Path, retention: i64) -> std::sync::Arc<Task> {
        open(path, StoreKind::Versioned { history_retention: retention, segment_interval: self.retention / SEGMENTS as i64 })
    }

    fn put(&self, task: &Task, rows: std::ops::Range<usize>, mut committed: impl FnMut(usize)) {
        let store = task.versioned("s").unwrap();
        for first in rows.clone().step_by(TRANSACTION) {
            let mut tx = task.begin().unwrap();
            let end = (first + TRANSACTION).min(rows.end);
            for n in first..end {
                let value = self.history.data.value(n % self.history.rows);
                store.put(&mut tx, self.history.key(n), Some(value), Timestamp(self.history.time(n))).unwrap();
            }
            commit(task, tx, first);
            committed(end);
        }
    }
}

/// Rows that the files of the store's versions hold.
fn rows_on_disk(path: &Path) -> usize {
    let options = rust_rocksdb::Options::default();
    let files = rust_rocksdb::DB::open_cf_for_read_only(&options, path, ["default", "versions:s"], false).unwrap();
    let versions = files.cf_handle("versions:s").unwrap();
    files.property_int_value_cf(&versions, "rocksdb.estimate-num-keys").unwrap().unwrap() as usize
}

pub fn expiry(settings: &Settings, history: &History) {
    let run = Run { history, retention: history.time(history.rows) };
    let segment = history.rows / SEGMENTS;
    let name = "versions on disk that no read can ask for, in segments' worth (24 a retention), while history expires";
    if settings.wants(name) {
        let dir = tempfile::tempdir().unwrap();
        let task = run.open(dir.path(), run.retention);
        run.put(&task, 0..history.rows, |_| {});
        let mut left = Vec::new();
        run.put(&task, history.rows..2 * history.rows, |end| {
            // In force within the retention: what began in it, and of each key the version before.
            let live = history.rows + history.keys;
            left.push((rows_on_disk(dir.path()) as f64 - live.min(end) as f64).max(0.0) / segment as f64);
        });
        left.sort_by(f64::total_cmp);
        let note = format!("at {} commits; most: {:.2}", left.len(), left[left.len() - 1]);
        print(name, "nothing (absolute)", left[left.len() / 2], "<= 1", "segments", &note);
    }
    figure(
        settings,
        ("versioned put while history expires", "the same put where nothing expires", "<= 1.3", "time"),
        || {
            let dir = tempfile::tempdir().unwrap();
            let task = run.open(dir.path(), run.retention);
            run.put(&task, 0..history.rows, |_| {});
            timed(|| run.put(&task, history.rows..2 * history.rows, |_| {}))
        },
        || {
            let dir = tempfile::tempdir().unwrap();
            let task = run.open(dir.path(), 10 * run.retention);
            run.put(&task, 0..history.rows, |_| {});
            timed(|| run.put(&task, history.rows..2 * history.rows, |_| {}))
        },
    );
}
