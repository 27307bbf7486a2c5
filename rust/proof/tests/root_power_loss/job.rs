//! A query with one as-of join on a root: Spark's driver, its files and its sink.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use holdfast_core::{Error, ErrorKind};
use holdfast_host::host::Host;
use holdfast_host::session::{Routed, Session};
use serde_json::json;

use crate::rows::{Output, PARTITIONS, batch, expected, is_skipped};
use crate::{disk, far_future};

const COMMIT: &str = "v1\n{}";
/// The end of a complete file of offsets or of a source's log, as this job writes them.
const END: &[u8] = b".\n";

/// Why a job stopped.
#[derive(Debug)]
pub enum Stop {
    /// The power was lost.
    PowerLost,
    /// A guarantee is broken.
    Broken(String),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(format!("the job itself: {error}"))
    }
}

/// A query. Its sink survives a loss of power. The query reads everything else from the root.
pub struct Job {
    root: PathBuf,
    local: PathBuf,
    rng: fastrand::Rng,
    host: Arc<Host>,
    runs: u64,
    attempts: i64,
    /// For each epoch in the sink: the number that determines its input rows, and its output.
    sink: Vec<(u64, Output)>,
    /// How many epochs there are up to the last one with a task.
    begun: usize,
}

impl Job {
    pub fn new(folder: &Path, seed: u64) -> Self {
        Self {
            root: folder.join("parent/root"),
            local: folder.join("local"),
            rng: holdfast_proof::generator(seed, 1),
            host: Arc::new(Host::new(None, None)),
            runs: 0,
            attempts: 0,
            sink: Vec::new(),
            begun: 0,
        }
    }

    /// How many epochs are in the sink.
    pub fn epochs(&self) -> usize {
        self.sink.len()
    }

    /// Starts the query, and runs it until the sink has this many epochs.
    pub fn run(&mut self, epochs: usize) -> Result<(), Stop> {
        let ran = self.start().and_then(|mut next| {
            self.check_far_future()?;
            while next < epochs {
                self.epoch(next)?;
                next += 1;
            }
            Ok(())
        });
        self.stop_host();
        ran
    }

    /// Checks that the root has the far-future rows of each epoch in the sink.
    fn check_far_future(&self) -> Result<(), Stop> {
        for (epoch, (rows, _)) in self.sink.iter().enumerate() {
            for partition in 0..PARTITIONS {
                let order = far_future::order(*rows, partition).filter(|_| !is_skipped(*rows));
                far_future::check(&self.root, epoch, partition, order).map_err(Stop::Broken)?;
            }
        }
        Ok(())
    }

    /// Loses the disk of the databases, too.
    pub fn lose_local(&self) -> Result<(), Stop> {
        match fs::remove_dir_all(&self.local) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn stop_host(&mut self) {
        while self.host.is_uploading() {
            thread::yield_now();
        }
        self.host.close();
        self.host = Arc::new(Host::new(None, None));
    }

    fn file(&self, folder: &str, epoch: usize) -> PathBuf {
        self.root.join(format!("query/{folder}/{epoch}"))
    }

    fn is_decided(&self, epoch: usize) -> bool {
        let record = format!("log/{epoch:020}/decided.0");
        self.root.join(record).exists()
    }

    /// Reads Spark's checkpoint as Spark does; returns the next epoch.
    fn start(&mut self) -> Result<usize, Stop> {
        self.runs += 1;
        for folder in ["query/offsets", "query/commits", "query/sources/0"] {
            fs::create_dir_all(self.root.join(folder))?;
        }
        let metadata = self.root.join("query/metadata");
        if self.query_id().is_none() {
            fs::write(metadata, format!(r#"{{"id":"query-{}"}}"#, self.runs))?;
        }
        let mut offsets = self.whole_files("offsets", |bytes| bytes.ends_with(END))?;
        let planned = self.whole_files("sources/0", |bytes| bytes.ends_with(END))?;
        // A file source reads no rows for offsets that its log lacks, so these epochs are planned
        // again.
        for epoch in offsets.extract_if(.., |epoch| !planned.contains(epoch)) {
            remove(&self.file("offsets", epoch))?;
        }
        // Spark does not start without the offsets before the last ones. The user removes the last
        // ones.
        while let Some(last) = offsets.last().copied()
            && last > 0
            && !offsets.contains(&(last - 1))
        {
            if let Some((rows, _)) = self.sink.get(last)
                && !is_skipped(*rows)
            {
                return Err(Stop::Broken(format!(
                    "epoch {last} is in the sink, and Spark lost the offsets before"
                )));
            }
            remove(&self.file("offsets", last))?;
            offsets.pop();
        }
        let mut commits = self.whole_files("commits", |bytes| bytes == COMMIT.as_bytes())?;
        // Spark refuses to write over a file of a source's log. The user removes those of epochs
        // that Spark plans again.
        for epoch in planned.iter().filter(|epoch| !offsets.contains(epoch)) {
            remove(&self.file("sources/0", *epoch))?;
        }
        // Before an epoch is decided, its commit may be left without its offsets. The user removes
        // it.
        for epoch in
            commits.extract_if(.., |epoch| offsets.last().is_none_or(|last| *epoch > *last))
        {
            if self.is_decided(epoch) {
                return Err(Stop::Broken(format!(
                    "epoch {epoch} is decided, and Spark lost its offsets"
                )));
            }
            remove(&self.file("commits", epoch))?;
        }
        let Some(last) = offsets.last().copied() else {
            return Ok(0);
        };
        if commits.contains(&last) {
            return Ok(last + 1);
        }
        if let Some(before) = last.checked_sub(1)
            && !commits.contains(&before)
        {
            if self.is_decided(before) {
                return Err(Stop::Broken(format!(
                    "epoch {before} is decided, and Spark lost its commit"
                )));
            }
            // The user restores it, as Holdfast's error says: Spark begins no epoch before it has
            // written the commit of the one before.
            fs::write(self.file("commits", before), COMMIT)?;
        }
        Ok(last)
    }

    fn query_id(&self) -> Option<String> {
        let bytes = fs::read(self.root.join("query/metadata")).ok()?;
        let parsed: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        Some(parsed["id"].as_str()?.to_owned())
    }

    /// The epochs in one of Spark's logs. The user removes files that Spark cannot read.
    fn whole_files(
        &self,
        folder: &str,
        is_whole: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<usize>, Stop> {
        let mut epochs = Vec::new();
        for entry in fs::read_dir(self.root.join("query").join(folder))? {
            let path = entry?.path();
            if !is_whole(&fs::read(&path)?) {
                remove(&path)?;
            } else if let Some(epoch) = path.file_name().and_then(|name| name.to_str()) {
                epochs.extend(epoch.parse::<usize>());
            }
        }
        epochs.sort_unstable();
        Ok(epochs)
    }

    /// Plans an epoch, runs its tasks, writes to the sink, commits.
    fn epoch(&mut self, epoch: usize) -> Result<(), Stop> {
        let (offsets, source) = (self.file("offsets", epoch), self.file("sources/0", epoch));
        if !offsets.exists() {
            // A plan that is lost is made again with other rows. An epoch in which an operator
            // began is not skipped then: the root has the operator, so an error would ask for a
            // rewind.
            let rows = self.rng.u64(..) | u64::from(epoch < self.begun);
            fs::write(&source, format!("{rows:020}.\n"))?;
            fs::write(&offsets, offsets_text(epoch))?;
        }
        let rows = rows_of(&fs::read_to_string(&source)?).ok_or_else(|| {
            Stop::Broken(format!("query/sources/0/{epoch} was cut after it was read"))
        })?;
        // Nothing syncs the offsets of a skipped epoch before a task of a later epoch. So Spark may
        // plan it again with other rows; the sink has no output of it.
        if let Some(later) = self.sink.get(epoch..)
            && later.iter().all(|(rows, _)| is_skipped(*rows))
        {
            self.sink.truncate(epoch);
        }
        let mut output = Output::new();
        if !is_skipped(rows) {
            self.begun = self.begun.max(epoch + 1);
            for partition in 0..PARTITIONS {
                output.extend(self.task(epoch, partition, rows)?);
            }
        }
        if epoch > self.sink.len() {
            return Err(Stop::Broken(format!(
                "epoch {epoch} follows {}",
                self.sink.len()
            )));
        }
        let before = self.sink[..epoch].iter().map(|(rows, _)| *rows);
        let expected = expected(before.chain([rows]));
        if output != expected {
            return Err(Stop::Broken(format!(
                "epoch {epoch}: {output:?} instead of {expected:?}"
            )));
        }
        match self.sink.get(epoch) {
            None => self.sink.push((rows, output)),
            Some((first, _)) if *first == rows => {}
            Some(_) => {
                return Err(Stop::Broken(format!(
                    "epoch {epoch} is in the sink, and was computed from other rows"
                )));
            }
        }
        self.check_far_future()?;
        fs::write(self.file("commits", epoch), COMMIT)?;
        Ok(())
    }

    /// Runs a task until it is acknowledged. Repeats it if its host was killed.
    fn task(&mut self, epoch: usize, partition: usize, rows: u64) -> Result<Output, Stop> {
        loop {
            self.attempts += 1;
            let done = self.attempt(epoch, partition, rows);
            if !disk::is_powered() {
                return Err(Stop::PowerLost);
            }
            match done {
                Ok(output) => return Ok(output),
                Err(_) if disk::was_killed() => self.stop_host(),
                Err(error) => {
                    return Err(Stop::Broken(format!(
                        "epoch {epoch}, partition {partition}: {:?} {error}",
                        error.kind()
                    )));
                }
            }
        }
    }

    fn attempt(&self, epoch: usize, partition: usize, rows: u64) -> Result<Output, Error> {
        let request = json!({
            "root": self.root, "local_dir": self.local, "scratch": false,
            "query_id": self.query_id(), "run_id": format!("run-{}", self.runs), "epoch": epoch,
            "partition": partition, "partitions": PARTITIONS,
            "attempt": self.attempts, "instance": "call",
            "settings": {
                "snapshot_interval": 0, "retain_epochs": 1, "flush_interval": 0, "memory": 64 << 20,
            },
            "operator": {
                "name": "join", "kind": "join_asof", "keys": ["currency"], "left": ["id"],
                "right": ["rate"], "how": "left",
                "history_retention": 1_000_000, "order_left": [], "order_right": [],
                "max_ahead": far_future::MAX_AHEAD,
                "output": [
                    {"name": "id", "from": "left", "index": 0},
                    {"name": "rate", "from": "right", "index": 0},
                ],
            },
        });
        let Routed::Local(mut session, _) =
            Session::open(&self.host, request.to_string().as_bytes())?
        else {
            return Err(Error::new(ErrorKind::InvalidState, "there is one host"));
        };
        let batch = batch(epoch, partition, rows);
        let schema = batch.schema();
        session.push(batch)?;
        let mut output = Output::new();
        session.finish(Some(&schema), &mut |batch: RecordBatch| {
            let ids = batch["id"].as_primitive::<Int64Type>();
            let rates = batch["rate"].as_primitive::<Float64Type>();
            for row in 0..batch.num_rows() {
                let rate = rates.is_valid(row).then(|| rates.value(row) as i64);
                output.insert(ids.value(row), rate);
            }
            Ok(())
        })?;
        Ok(output)
    }
}

/// Removes a file as the user does: durably.
fn remove(file: &Path) -> std::io::Result<()> {
    fs::remove_file(file)?;
    file.parent().map_or(Ok(()), disk::make_durable)
}

/// Spark's offsets of an epoch. They name a file of the source's log, as those of a file source do.
fn offsets_text(epoch: usize) -> String {
    format!("v1\n{{\"batchTimestampMs\":{epoch}}}\n{{\"logOffset\":{epoch}}}.\n")
}

/// Reads a file of the source's log.
fn rows_of(planned: &str) -> Option<u64> {
    planned.strip_suffix(".\n")?.parse().ok()
}
