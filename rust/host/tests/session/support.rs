//! The cast: Spark's driver (its files), a host, workers, rows.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use holdfast_core::{Error, Result};
use holdfast_host::client::Client;
use holdfast_host::executor::Executor;
use holdfast_host::host::request::StageReport;
use holdfast_host::server::{ServerOptions, TcpPlace, serve};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const TOKEN: &str = "a token";
pub const QUERY: &str = "query-1";
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The S3 server of `scripts/s3`, if the tests run beside it.
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

/// A root with Spark's checkpoint in it, as the driver writes it.
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
        for folder in ["query/offsets", "query/commits"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        std::fs::write(
            root.path().join("query/metadata"),
            format!(r#"{{"id":"{QUERY}"}}"#),
        )
        .unwrap();
        Self { root }
    }

    /// Whether the root is a folder, and no bucket.
    pub fn is_local() -> bool {
        on_s3().is_none()
    }

    /// The root's objects, which are files also on the server of `scripts/s3`.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Where the state is, as a request says it.
    fn place(&self) -> Value {
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

    /// Writes an epoch's offsets: it may be computed now.
    pub fn begin(&self, epoch: i64) {
        std::fs::write(
            self.path().join(format!("query/offsets/{epoch}")),
            "v1\n{}\n0",
        )
        .unwrap();
    }

    /// Writes an epoch's commit: its sink has it.
    pub fn commit(&self, epoch: i64) {
        std::fs::write(self.path().join(format!("query/commits/{epoch}")), "v1\n{}").unwrap();
    }

    /// Puts an older checkpoint back: that of the moment when `epoch` began, while the newest one
    /// is at `next`.
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

    /// Runs epochs from `next` on until something is so, which comes of them sooner or later;
    /// returns the next one.
    pub fn run_epochs_until(
        &self,
        mut next: i64,
        is_so: impl Fn() -> bool,
        run: impl Fn(i64),
    ) -> i64 {
        let started = Instant::now();
        while !is_so() {
            assert!(
                started.elapsed() < PATIENCE,
                "it was not so in {} before epoch {next}",
                self.path().display()
            );
            self.epoch(next, || run(next));
            next += 1;
        }
        next
    }

    /// Begins an epoch, does its work and commits it.
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

    /// Waits until a partition's database is there.
    pub fn wait_for_local(&self, partition: i32) {
        let started = Instant::now();
        let is_there = || {
            std::fs::read_dir(self.local(partition))
                .ok()?
                .flatten()
                .find(|file| file.path().join("CURRENT").exists())
        };
        while is_there().is_none() {
            assert!(
                started.elapsed() < PATIENCE,
                "no database in {}",
                self.local(partition).display()
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Deletes the local databases and leaves the root.
    pub fn delete_local(&self) {
        // A host that still has them open may write another file meanwhile: again, until all is
        // gone.
        let state = self.path().join("state");
        while let Err(error) = std::fs::remove_dir_all(&state) {
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::DirectoryNotEmpty,
                "{error}"
            );
        }
    }

    /// Who owned a partition, oldest first: term and address.
    pub fn owners(&self, partition: i32) -> Vec<(String, String)> {
        let folder =
            std::fs::read_dir(self.path().join(format!("owners/join/{partition}"))).unwrap();
        let mut files: Vec<PathBuf> = folder.map(|file| file.unwrap().path()).collect();
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
                claim["endpoint"].as_str().unwrap_or("none").to_owned(),
            )
        };
        files.iter().map(owner).collect()
    }

    /// The names of an epoch's log objects.
    pub fn objects(&self, epoch: i64) -> Vec<String> {
        let Ok(folder) = std::fs::read_dir(self.path().join(format!("log/{epoch:020}"))) else {
            return Vec::new();
        };
        let mut names: Vec<String> = folder
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Turns a bit in each of a partition's closed tables that has this text; returns in how many.
/// RocksDB does not look at rows when it opens a database: the damage shows when they are read.
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

/// A state host in a thread, with an executor (a sleeping process) that can be killed.
pub struct Host {
    pub socket: PathBuf,
    executor: Child,
    thread: Option<JoinHandle<Result<()>>>,
    folder: Option<TempDir>,
}

impl Host {
    /// One that only its own executor reaches.
    pub fn start() -> Self {
        Self::with(None)
    }

    /// One of several on a cluster.
    pub fn on_a_cluster() -> Self {
        Self::with(Some(loopback()))
    }

    fn with(tcp: Option<TcpPlace>) -> Self {
        Self::at(tempfile::tempdir().unwrap(), tcp)
    }

    fn at(folder: TempDir, tcp: Option<TcpPlace>) -> Self {
        let executor = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let socket = folder.path().join("run/host.sock");
        let options = ServerOptions {
            socket: socket.clone(),
            token: TOKEN.into(),
            tcp,
            executor: Executor::of(executor.id().cast_signed()),
            idle: Duration::from_secs(600),
        };
        assert!(options.executor.is_some());
        let thread = thread::spawn(move || serve(&options));
        wait_for(&socket);
        Self {
            socket,
            executor,
            thread: Some(thread),
            folder: Some(folder),
        }
    }

    /// Ends the executor, and with it the host; returns how long the host took to notice.
    pub fn stop(mut self) -> Duration {
        self.end()
    }

    /// The next host at the same socket, started as soon as this one is not to be reached any more.
    pub fn replaced(mut self) -> Self {
        self.end_executor();
        // The socket goes before the lock beside it; a worker waits as well.
        let lock = std::fs::File::open(self.socket.with_extension("host")).unwrap();
        lock.lock().unwrap();
        drop(lock);
        let next = Self::at(self.folder.take().unwrap(), None);
        self.thread.take().unwrap().join().unwrap().unwrap();
        self.executor.wait().unwrap();
        next
    }

    fn end(&mut self) -> Duration {
        if self.thread.is_none() {
            return Duration::ZERO;
        }
        let noticed = self.end_executor();
        self.thread.take().unwrap().join().unwrap().unwrap();
        self.executor.wait().unwrap();
        noticed
    }

    /// Ends the executor; returns how long the host took to stop listening.
    fn end_executor(&mut self) -> Duration {
        self.executor.kill().unwrap();
        let killed = Instant::now();
        while self.socket.exists() && killed.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        killed.elapsed()
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.socket, TOKEN, PATIENCE).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if thread::panicking() {
            // The test has failed already; what matters is that nothing of it goes on running.
            self.executor.kill().unwrap_or_default();
        } else {
            self.end();
        }
    }
}

/// A state host in a process of its own, which can be killed.
pub struct HostProcess {
    pub socket: PathBuf,
    process: Child,
    folder: TempDir,
}

impl HostProcess {
    /// One that only its own executor reaches.
    pub fn start() -> Self {
        Self::with("")
    }

    /// One of several on a cluster.
    pub fn on_a_cluster() -> Self {
        Self::with("yes")
    }

    fn with(cluster: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("host.sock");
        // As in Python: a file that may not grow is an error, no signal that kills.
        let process = Command::new("sh")
            .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#])
            .arg(std::env::current_exe().unwrap())
            .args([
                "support::serves_in_a_process_of_its_own",
                "--exact",
                "--ignored",
            ])
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .env("HOLDFAST_TEST_SOCKET", &socket)
            .env("HOLDFAST_TEST_CLUSTER", cluster)
            .spawn()
            .unwrap();
        wait_for(&socket);
        Self {
            socket,
            process,
            folder,
        }
    }

    /// SIGKILL: nothing is flushed, nobody says goodbye.
    pub fn kill(self) {
        drop(self);
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.socket, TOKEN, PATIENCE).unwrap()
    }

    /// What it has told so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Lets no file grow beyond so many bytes, as a disk that is full; or lifts that again.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(Pid::from_child(&self.process)), Resource::Fsize, limit).unwrap();
    }

    /// The most memory that it has had: bytes.
    pub fn peak_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
            .unwrap();
        peak.parse::<u64>().unwrap() << 10
    }

    /// Lets it open one more file, and no second one.
    pub fn leave_one_handle(&self) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        let open: Vec<u64> = open
            .map(|handle| {
                handle
                    .unwrap()
                    .file_name()
                    .to_str()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        let free = (0..).find(|number| !open.contains(number)).unwrap();
        self.limit_handles(Some(free + 1));
    }

    /// Lifts that again.
    pub fn leave_all_handles(&self) {
        self.limit_handles(getrlimit(Resource::Nofile).current);
    }

    fn limit_handles(&self, current: Option<u64>) {
        let limit = Rlimit {
            current,
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        prlimit(
            Some(Pid::from_child(&self.process)),
            Resource::Nofile,
            limit,
        )
        .unwrap();
    }

    /// SIGSTOP: it keeps all that it has, and does not answer.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT: it goes on as if nothing had been.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("{}", self.log());
        }
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
#[ignore = "the body of HostProcess, not a test"]
fn serves_in_a_process_of_its_own() {
    let socket = std::env::var_os("HOLDFAST_TEST_SOCKET").expect("started by HostProcess");
    holdfast_host::logging::to_stderr();
    let executor = rustix::process::getppid().and_then(|parent| Executor::of(parent.as_raw_pid()));
    let cluster = std::env::var("HOLDFAST_TEST_CLUSTER").expect("started by HostProcess") == "yes";
    let tcp = cluster.then(loopback);
    serve(&ServerOptions {
        socket: socket.into(),
        token: TOKEN.into(),
        tcp,
        executor,
        idle: Duration::from_secs(60),
    })
    .unwrap();
}

fn loopback() -> TcpPlace {
    TcpPlace {
        name: "127.0.0.1".into(),
        bind: None,
    }
}

fn wait_for(socket: &Path) {
    let started = Instant::now();
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        assert!(
            started.elapsed() < PATIENCE,
            "no host listens at {}",
            socket.display()
        );
        thread::sleep(Duration::from_millis(2));
    }
}

/// One task's request.
#[derive(Debug, Clone)]
pub struct Database {
    pub request: Value,
}

impl Database {
    /// A task of the run `run`, in a state of one partition.
    pub fn new(spark: &Spark, run: &str, epoch: i64) -> Self {
        let mut request = json!({
                "local_dir": null, "scratch": false, "query_id": QUERY, "run_id": run,
                "epoch": epoch,
                "partition": 0, "partitions": 1, "attempt": 1, "instance": "call-1",
                "settings": {"uncommitted_max_bytes": -1, "memory": 1 << 28},
                "operator": operator("left", 1_000_000),
        });
        let Value::Object(place) = spark.place() else {
            unreachable!("it is an object")
        };
        request.as_object_mut().unwrap().extend(place);
        Self { request }
    }

    pub fn scratch() -> Self {
        let request = json!({
            "root": null, "local_dir": null, "scratch": true, "query_id": null, "run_id": null,
            "epoch": null,
            "partition": 0, "partitions": 1, "attempt": 1, "instance": "call-1", "settings": {},
            "operator": operator("left", 1_000_000),
        });
        Self { request }
    }

    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        *self.request.pointer_mut(pointer).unwrap() = value.into();
        self
    }

    pub fn partition(self, partition: i32, partitions: u32) -> Self {
        self.with("/partition", partition)
            .with("/partitions", partitions)
    }

    pub fn attempt(self, attempt: i64) -> Self {
        self.with("/attempt", attempt)
    }

    fn pid(&self) -> i32 {
        self.request["partition"]
            .as_i64()
            .unwrap()
            .try_into()
            .unwrap()
    }

    /// Opens the session and sends all rows, in one batch; the end of the input is still to come.
    pub fn pushed(&self, mut client: Client, rows: &[Row]) -> Result<Client> {
        client.open(&self.request.to_string())?;
        client.push(&batch(self.pid(), &[]))?;
        client.push(&batch(self.pid(), rows))?;
        Ok(client)
    }

    /// Runs the task to its end.
    pub fn run(&self, client: Client, rows: &[Row]) -> Result<Done> {
        self.run_batches(client, &[rows])
    }

    /// Runs the task to its end, with the rows cut into batches.
    pub fn run_batches(&self, mut client: Client, batches: &[&[Row]]) -> Result<Done> {
        client.open(&self.request.to_string())?;
        client.push(&batch(self.pid(), &[]))?;
        for rows in batches {
            client.push(&batch(self.pid(), rows))?;
        }
        let mut output = client.finish()?;
        let batches = output.by_ref().collect::<Result<Vec<RecordBatch>>>()?;
        let staged =
            serde_json::from_str(output.staged().expect("acknowledged")).expect("valid JSON");
        Ok(Done {
            rows: batches.iter().flat_map(joined).collect(),
            batches,
            staged,
        })
    }
}

/// What a task gave.
#[derive(Debug)]
pub struct Done {
    pub rows: Vec<Joined>,
    pub batches: Vec<RecordBatch>,
    pub staged: StageReport,
}

pub fn operator(how: &str, retention: i64) -> Value {
    json!({
        "name": "join", "kind": "join_asof", "keys": ["currency"], "left": ["id"],
        "right": ["rate", "note"], "how": how,
        "history_retention": retention, "order_left": [], "order_right": [],
        "output": [
            {"name": "currency", "from": "key", "index": 0},
            {"name": "at", "from": "time", "index": 0},
            {"name": "id", "from": "left", "index": 0},
            {"name": "rate", "from": "right", "index": 0},
            {"name": "valid_from", "from": "right_time", "index": 0},
            {"name": "note", "from": "right", "index": 1},
        ],
    })
}

/// A row of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    Right {
        key: Option<String>,
        time: Option<i64>,
        rate: i64,
        deleted: bool,
    },
    Left {
        key: Option<String>,
        time: Option<i64>,
        id: i64,
    },
}

pub fn right(key: &str, time: i64, rate: i64) -> Row {
    Row::Right {
        key: Some(key.into()),
        time: Some(time),
        rate,
        deleted: false,
    }
}

pub fn deleted(key: &str, time: i64) -> Row {
    Row::Right {
        key: Some(key.into()),
        time: Some(time),
        rate: 0,
        deleted: true,
    }
}

pub fn left(key: &str, time: i64, id: i64) -> Row {
    Row::Left {
        key: Some(key.into()),
        time: Some(time),
        id,
    }
}

/// A row of the result: left id, matched rate, matched time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Joined {
    pub id: i64,
    pub rate: Option<i64>,
    pub valid_from: Option<i64>,
}

pub fn matched(id: i64, rate: i64, valid_from: i64) -> Joined {
    Joined {
        id,
        rate: Some(rate),
        valid_from: Some(valid_from),
    }
}

pub fn unmatched(id: i64) -> Joined {
    Joined {
        id,
        rate: None,
        valid_from: None,
    }
}

pub fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        field("pid", DataType::Int32),
        field("side", DataType::Boolean),
        field("deleted", DataType::Boolean),
        field(
            "t",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        field("k0", DataType::Utf8),
        field("l0", DataType::Int64),
        field("r0", DataType::Int64),
        field("r1", DataType::Utf8),
    ]))
}

pub fn batch(pid: i32, rows: &[Row]) -> RecordBatch {
    let side: BooleanArray = rows
        .iter()
        .map(|row| Some(matches!(row, Row::Left { .. })))
        .collect();
    let deleted: BooleanArray = rows
        .iter()
        .map(|row| Some(matches!(row, Row::Right { deleted: true, .. })))
        .collect();
    let time = |row: &Row| match row {
        Row::Right { time, .. } | Row::Left { time, .. } => *time,
    };
    let key = |row: &Row| match row {
        Row::Right { key, .. } | Row::Left { key, .. } => key.clone(),
    };
    let id = |row: &Row| {
        if let Row::Left { id, .. } = row {
            Some(*id)
        } else {
            None
        }
    };
    let rate = |row: &Row| {
        if let Row::Right { rate, .. } = row {
            Some(*rate)
        } else {
            None
        }
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![pid; rows.len()])),
        Arc::new(side),
        Arc::new(deleted),
        Arc::new(
            rows.iter()
                .map(time)
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
        Arc::new(rows.iter().map(key).collect::<StringArray>()),
        Arc::new(rows.iter().map(id).collect::<Int64Array>()),
        Arc::new(rows.iter().map(rate).collect::<Int64Array>()),
        // A value column that is null for odd rates.
        Arc::new(
            rows.iter()
                .map(|row| {
                    rate(row)
                        .filter(|rate| rate % 2 == 0)
                        .map(|rate| format!("note {rate}"))
                })
                .collect::<StringArray>(),
        ),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

pub fn joined(batch: &RecordBatch) -> Vec<Joined> {
    let ids = batch["id"].as_primitive::<Int64Type>();
    let rates = batch["rate"].as_primitive::<Int64Type>();
    let times = batch["valid_from"].as_primitive::<TimestampMicrosecondType>();
    let notes = batch["note"].as_string::<i32>();
    let row = |row: usize| {
        let rate = rates.is_valid(row).then(|| rates.value(row));
        let note = notes.is_valid(row).then(|| notes.value(row).to_owned());
        assert_eq!(
            note,
            rate.filter(|rate| rate % 2 == 0)
                .map(|rate| format!("note {rate}")),
            "the value's columns belong together"
        );
        Joined {
            id: ids.value(row),
            rate,
            valid_from: times.is_valid(row).then(|| times.value(row)),
        }
    };
    (0..batch.num_rows()).map(row).collect()
}

/// The message of what must have failed.
pub fn refused<T: std::fmt::Debug>(result: Result<T>) -> Error {
    result.expect_err("it must be refused")
}
