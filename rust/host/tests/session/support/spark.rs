//! Spark's driver: a root with the checkpoint that it writes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::support::wait::{PATIENCE, wait_until};
use holdfast_host::root::{Root, StorageOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const QUERY: &str = "query-1";
/// The time of the heartbeats, far ahead of the rows.
pub const HEARTBEAT: i64 = 1_000_000_000_000;

/// The S3 server of `scripts/s3`, if it runs.
struct S3 {
    endpoint: String,
    bucket: PathBuf,
}

fn on_s3() -> Option<S3> {
    let bucket = std::env::var_os("HOLDFAST_TEST_S3_FOLDER")?.into();
    Some(S3 {
        endpoint: std::env::var("HOLDFAST_TEST_S3").unwrap(),
        bucket,
    })
}

/// A root with Spark's checkpoint in it.
pub struct Spark {
    pub root: TempDir,
}

impl Spark {
    pub fn new() -> Self {
        let mut folder = tempfile::Builder::new();
        folder.prefix("root-");
        let root = on_s3()
            .map_or_else(|| folder.tempdir(), |s3| folder.tempdir_in(s3.bucket))
            .unwrap();
        let spark = Self { root };
        spark.make_checkpoint(QUERY);
        spark
    }

    fn make_checkpoint(&self, query: &str) {
        for folder in ["query/offsets", "query/commits"] {
            std::fs::create_dir_all(self.path().join(folder)).unwrap();
        }
        std::fs::write(
            self.path().join("query/metadata"),
            format!(r#"{{"id":"{query}"}}"#),
        )
        .unwrap();
    }

    /// Deletes the root.
    pub fn delete(&self) {
        std::fs::remove_dir_all(self.path()).unwrap();
    }

    /// Deletes the root and makes one under the same path, for another query.
    pub fn make_anew(&self, query: &str) {
        self.delete();
        self.make_checkpoint(query);
    }

    /// Copies the root, without the local databases.
    pub fn back_up(&self) -> TempDir {
        let backup = tempfile::tempdir().unwrap();
        Self::replace_root(self.path(), backup.path());
        backup
    }

    /// Replaces the root by a backup. The local databases stay, and hosts may have them open.
    pub fn restore_backup(&self, backup: &TempDir) {
        Self::replace_root(backup.path(), self.path());
    }

    /// Replaces a root by a copy of another one. Neither has its local databases copied or removed.
    pub fn replace_root(from: &Path, to: &Path) {
        let entries = |folder: &Path| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(folder).unwrap();
            let paths = entries.map(|entry| entry.unwrap().path());
            paths.filter(|path| !path.ends_with("state")).collect()
        };
        for old in entries(to) {
            std::fs::remove_dir_all(&old)
                .or_else(|_| std::fs::remove_file(&old))
                .unwrap();
        }
        let mut left = entries(from);
        while let Some(path) = left.pop() {
            let copy = to.join(path.strip_prefix(from).unwrap());
            if path.is_dir() {
                std::fs::create_dir(&copy).unwrap();
                left.extend(entries(&path));
            } else {
                std::fs::copy(&path, &copy).unwrap();
            }
        }
    }

    /// Opens the root.
    pub fn open_root(&self) -> Root {
        Root::open(
            &self.path().display().to_string(),
            &StorageOptions::default(),
        )
        .unwrap()
    }

    /// Whether the root is a folder and not a bucket.
    pub fn is_local() -> bool {
        on_s3().is_none()
    }

    /// The folder of the root's objects; the server of `scripts/s3` stores objects as files, too.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// The fields of a request that name the root.
    pub fn location(&self) -> Value {
        match on_s3() {
            None => json!({"root": self.path()}),
            Some(s3) => json!({
                "root": format!("s3://test/{}", self.path().file_name().unwrap().to_string_lossy()),
                "storage_options": {
                    "endpoint": s3.endpoint, "access_key_id": "test",
                    "secret_access_key": "testtest", "allow_http": "true",
                },
                "local_dir": self.path().join("state"),
            }),
        }
    }

    /// Writes an epoch's offsets; tasks may compute it now.
    pub fn begin(&self, epoch: i64) {
        std::fs::write(
            self.path().join(format!("query/offsets/{epoch}")),
            "v1\n{}\n0",
        )
        .unwrap();
    }

    /// As [`Spark::begin`], for an epoch planned at `second`, with a source at `offset` and
    /// a heartbeat that is followed after a minute.
    pub fn begin_with_heartbeat(&self, epoch: i64, second: i64, offset: i64) {
        let text = format!(
            "v1\n{{\"batchTimestampMs\":{}}}\n{offset}\n\
             {{\"holdfast_heartbeat\":{HEARTBEAT},\"idle_after\":60000000,\"started\":0}}",
            second * 1_000,
        );
        std::fs::write(self.path().join(format!("query/offsets/{epoch}")), text).unwrap();
    }

    /// Writes an epoch's commit; the sink has its output.
    pub fn commit(&self, epoch: i64) {
        std::fs::write(self.path().join(format!("query/commits/{epoch}")), "v1\n{}").unwrap();
    }

    /// Restores the checkpoint as it was when `epoch` began. The present checkpoint is at `next`.
    pub fn restore_checkpoint(&self, epoch: i64, next: i64) {
        for later in epoch..=next {
            for file in [
                format!("query/offsets/{}", later + 1),
                format!("query/commits/{later}"),
            ] {
                if let Err(error) = std::fs::remove_file(self.path().join(file)) {
                    assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
                }
            }
        }
    }

    /// Runs epochs from `next` on until the condition holds; returns the next epoch.
    pub fn run_epochs_until(
        &self,
        mut next: i64,
        condition: impl Fn() -> bool,
        run: impl Fn(i64),
    ) -> i64 {
        let started = Instant::now();
        while !condition() {
            assert!(
                started.elapsed() < PATIENCE,
                "the condition does not hold in {} before epoch {next}",
                self.path().display()
            );
            self.epoch(next, || run(next));
            next += 1;
        }
        next
    }

    /// Begins an epoch, runs `work` and commits the epoch.
    pub fn epoch<T>(&self, epoch: i64, work: impl FnOnce() -> T) -> T {
        self.begin(epoch);
        let done = work();
        self.commit(epoch);
        done
    }

    /// Where a partition's databases are.
    pub fn local(&self, partition: i32) -> PathBuf {
        // A local_dir may be shared by several queries.
        let state = if Self::is_local() {
            "state".to_owned()
        } else {
            format!("state/{QUERY}")
        };
        self.path()
            .join(state)
            .join("join")
            .join(partition.to_string())
    }

    /// Waits until a partition has a local database.
    pub fn wait_for_local(&self, partition: i32) {
        let folder = self.local(partition);
        let exists = || {
            std::fs::read_dir(&folder).is_ok_and(|files| {
                files
                    .flatten()
                    .any(|file| file.path().join("CURRENT").exists())
            })
        };
        wait_until(exists, || format!("no database in {}", folder.display()));
    }

    /// Deletes the local databases and leaves the root.
    pub fn delete_local(&self) {
        // A host that has them open may add files meanwhile; repeat until the folder is empty.
        let state = self.path().join("state");
        while let Err(error) = std::fs::remove_dir_all(&state) {
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::DirectoryNotEmpty,
                "{error}"
            );
        }
    }

    /// The owners of a partition, oldest first: term and address.
    pub fn owners(&self, partition: i32) -> Vec<(String, String)> {
        let folder =
            std::fs::read_dir(self.path().join(format!("owners/join/{partition}"))).unwrap();
        let mut files: Vec<PathBuf> = folder.map(|file| file.unwrap().path()).collect();
        // A host may put a claim meanwhile: `#` is in the name of a file that is not complete yet.
        files.retain(|file| !file.to_string_lossy().contains('#'));
        files.sort();
        let owner = |file: &PathBuf| {
            let claim: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            let term = file
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .split('.')
                .map(|number| number.trim_start_matches('0'));
            (
                term.collect::<Vec<_>>().join("."),
                claim["endpoint"]["address"]
                    .as_str()
                    .unwrap_or("none")
                    .to_owned(),
            )
        };
        files.iter().map(owner).collect()
    }

    /// The names of an epoch's heads.
    pub fn objects(&self, epoch: i64) -> Vec<String> {
        let mut names = self.files(&format!("log/{epoch:020}"));
        names.retain(|name| name != "chunks" && !name.starts_with("decided."));
        names
    }

    /// The names of an epoch's chunks.
    pub fn chunks(&self, epoch: i64) -> Vec<String> {
        self.files(&format!("log/{epoch:020}/chunks"))
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let Ok(folder) = std::fs::read_dir(self.path().join(folder)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = folder
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Flips a bit in each table file of partition 0 that contains the text; returns their number.
///
/// The partition must be closed. RocksDB does not read rows when it opens a database, so the damage
/// shows only when they are read.
pub fn damage_tables(spark: &Spark, text: &[u8]) -> usize {
    let folder = std::fs::read_dir(spark.local(0))
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let tables = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut damaged = 0;
    for table in tables.filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
    {
        let mut bytes = std::fs::read(&table).unwrap();
        let Some(at) = bytes.windows(text.len()).position(|window| window == text) else {
            continue;
        };
        bytes[at] ^= 1;
        std::fs::write(&table, bytes).unwrap();
        damaged += 1;
    }
    damaged
}
