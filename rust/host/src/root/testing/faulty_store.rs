//! An object store in memory with faults that the root must detect or survive.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::channel::oneshot;
use futures::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::protocol::{Epoch, RunNumber};
use crate::root::{Root, names};

/// How a store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not at all.
    None,
    /// A create of an existing object succeeds and overwrites it.
    CreateOverwrites,
    /// This many creates fail with "already exists" although nothing exists.
    ExistsFalsely(usize),
    /// The log of epoch 0 is removed at the claim of run 2, as another host might do.
    LosesLogWithClaim,
    /// Addresses for readers cannot be put.
    RefusesReaders,
    /// One call in ten, chosen by this seed, has a fault: it is refused, its answer is lost, it
    /// takes effect during a later call, it is slow, or a read ends in the middle of an object.
    OneInTen(u64),
}

/// How one call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedFault {
    Refused,
    AnswerLost,
    Postponed,
    Late,
}

/// An object store with a fault.
#[derive(Debug)]
pub struct FaultyStore {
    inner: InMemory,
    fault: Mutex<Fault>,
    puts: AtomicUsize,
    requests: AtomicUsize,
    calls: AtomicUsize,
    /// How many calls had a fault of [`Fault::OneInTen`].
    injected: AtomicUsize,
    postponed: Mutex<Vec<(Path, PutPayload, PutOptions)>>,
    /// Changes by other processes right before a folder is listed or an object is put, once.
    concurrent: Mutex<Option<(Path, Vec<ConcurrentChange>)>>,
    stalled: Arc<Mutex<Option<StalledCall>>>,
    stalled_request: Mutex<Option<StalledCall>>,
}

/// A call that is to stall.
#[derive(Debug)]
struct StalledCall {
    /// The object, or a folder above it.
    place: Path,
    reached: mpsc::Sender<()>,
    resumed: oneshot::Receiver<()>,
}

impl StalledCall {
    fn at(place: &str) -> (Self, Stall) {
        let ((sender, reached), (resume, resumed)) = (mpsc::channel(), oneshot::channel());
        let call = Self {
            place: Path::from(place),
            reached: sender,
            resumed,
        };
        (call, Stall { reached, resume })
    }

    async fn wait(self) {
        self.reached.send(()).expect("a test waits");
        self.resumed.await.expect("the test resumes it");
    }
}

/// The test's end of a stalled call.
#[derive(Debug)]
pub struct Stall {
    reached: mpsc::Receiver<()>,
    resume: oneshot::Sender<()>,
}

impl Stall {
    /// Waits until the call begins; panics if its thread ends without it.
    pub fn wait(&self) {
        self.reached.recv().expect("the call begins");
    }

    /// Lets the call continue.
    pub fn resume(self) {
        self.resume.send(()).expect("the call waits");
    }
}

/// A change by another process.
#[derive(Debug)]
pub enum ConcurrentChange {
    /// Puts an object.
    Puts(String, Vec<u8>),
    /// Removes one.
    Removes(String),
}

impl FaultyStore {
    /// Returns a root over the store, as each host has its own.
    pub fn root(self: &Arc<Self>) -> Root {
        let objects = Arc::clone(self) as Arc<dyn ObjectStore>;
        Root::over(objects, std::path::Path::new("memory"))
    }

    /// Returns an empty store with a fault.
    pub fn new(fault: Fault) -> Self {
        Self {
            inner: InMemory::new(),
            fault: Mutex::new(fault),
            puts: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            injected: AtomicUsize::new(0),
            postponed: Mutex::default(),
            concurrent: Mutex::default(),
            stalled: Arc::default(),
            stalled_request: Mutex::default(),
        }
    }

    /// Stalls the next removal of the object `place`, or of an object in the folder `place`, as a
    /// suspended machine does.
    pub fn stall_removal(&self, place: &str) -> Stall {
        let (call, stall) = StalledCall::at(place);
        *self.stalled.lock() = Some(call);
        stall
    }

    /// Stalls the next read of the object `place`, the next check whether it exists, or its next
    /// upload in parts.
    pub fn stall_request(&self, place: &str) -> Stall {
        let (call, stall) = StalledCall::at(place);
        *self.stalled_request.lock() = Some(call);
        stall
    }

    async fn wait_if_stalled(&self, location: &Path) {
        let is_here = |stall: &mut StalledCall| location.prefix_matches(&stall.place);
        let stalled = self.stalled_request.lock().take_if(is_here);
        if let Some(stall) = stalled {
            stall.wait().await;
        }
    }

    /// Makes these changes right before the folder `place` is listed, or the object `place` is put.
    pub fn before(&self, place: &str, changes: Vec<ConcurrentChange>) {
        *self.concurrent.lock() = Some((Path::from(place), changes));
    }

    async fn make_concurrent_changes(&self, place: &Path) {
        let changes = self
            .concurrent
            .lock()
            .take_if(|(of, _)| of == place)
            .map(|(_, changes)| changes);
        for change in changes.unwrap_or_default() {
            let done = match change {
                ConcurrentChange::Puts(name, content) => {
                    self.inner.put(&name.into(), content.into()).await.map(drop)
                }
                ConcurrentChange::Removes(name) => self.inner.delete(&name.into()).await,
            };
            done.expect("memory does not fail");
        }
    }

    /// Ends the faults and applies the postponed puts; returns how many faults there were.
    pub async fn repair(&self) -> usize {
        *self.fault.lock() = Fault::None;
        self.apply_postponed().await;
        self.injected.load(Ordering::Relaxed)
    }

    /// Applies the postponed puts.
    async fn apply_postponed(&self) {
        let postponed = mem::take(&mut *self.postponed.lock());
        for (location, payload, options) in postponed {
            // Its caller has already failed.
            let _ = self.inner.put_opts(&location, payload, options).await;
        }
    }

    /// Returns how many calls there were, without removals and copies.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    async fn inject(&self) -> Option<InjectedFault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let Fault::OneInTen(seed) = *self.fault.lock() else {
            return None;
        };
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let chance = xxh3_64_with_seed(&call.to_le_bytes(), seed);
        if !chance.is_multiple_of(10) {
            return None;
        }
        self.injected.fetch_add(1, Ordering::Relaxed);
        let injected = [
            InjectedFault::Refused,
            InjectedFault::AnswerLost,
            InjectedFault::Postponed,
            InjectedFault::Late,
        ][(chance >> 32) as usize % 4];
        if injected == InjectedFault::Late {
            tokio::time::sleep(Duration::from_millis(1)).await;
            return None;
        }
        Some(injected)
    }

    async fn refuse(&self) -> Result<()> {
        let injected = self.inject().await;
        self.apply_postponed().await;
        injected.map_or(Ok(()), |_| Err(broken()))
    }
}

fn broken() -> Error {
    Error::Generic {
        store: "faulty",
        source: "a fault".into(),
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        self.make_concurrent_changes(location).await;
        let put = self.puts.fetch_add(1, Ordering::Relaxed);
        let fault = *self.fault.lock();
        match fault {
            Fault::CreateOverwrites => options.mode = PutMode::Overwrite,
            Fault::ExistsFalsely(times) if put < times => {
                return Err(Error::AlreadyExists {
                    path: location.to_string(),
                    source: "a fault".into(),
                });
            }
            Fault::LosesLogWithClaim if *location == Path::from(names::claim(RunNumber(2))) => {
                let forgotten = self
                    .inner
                    .list(Some(&Path::from(names::epoch(Epoch(0)))))
                    .map(|found| found.map(|meta| meta.location));
                self.inner
                    .delete_stream(forgotten.boxed())
                    .for_each(|_| async {})
                    .await;
            }
            Fault::RefusesReaders if location.prefix_matches(&Path::from(names::READERS)) => {
                return Err(broken());
            }
            Fault::None
            | Fault::RefusesReaders
            | Fault::LosesLogWithClaim
            | Fault::ExistsFalsely(_)
            | Fault::OneInTen(_) => {}
        }
        let injected = self.inject().await;
        self.apply_postponed().await;
        match injected {
            None | Some(InjectedFault::Late) => {
                self.inner.put_opts(location, payload, options).await
            }
            Some(InjectedFault::Refused) => Err(broken()),
            Some(InjectedFault::AnswerLost) => self
                .inner
                .put_opts(location, payload, options)
                .await
                .and_then(|_| Err(broken())),
            Some(InjectedFault::Postponed) => {
                self.postponed
                    .lock()
                    .push((location.clone(), payload, options));
                Err(broken())
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.wait_if_stalled(location).await;
        self.refuse().await?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.wait_if_stalled(location).await;
        // Postponed puts are applied after the read, so the read does not find them.
        let injected = self.inject().await;
        let found = if injected == Some(InjectedFault::Refused) {
            Err(broken())
        } else {
            self.inner.get_opts(location, options).await
        };
        self.apply_postponed().await;
        let mut found = found?;
        if injected == Some(InjectedFault::AnswerLost) {
            let whole = mem::replace(
                &mut found.payload,
                GetResultPayload::Stream(stream::empty().boxed()),
            );
            if let GetResultPayload::Stream(whole) = whole {
                let cut = whole.map(|piece| piece.map(|bytes| bytes.slice(..bytes.len() / 2)));
                found.payload = GetResultPayload::Stream(
                    cut.chain(stream::once(async { Err(broken()) })).boxed(),
                );
            }
        }
        Ok(found)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let stalled = Arc::clone(&self.stalled);
        let locations = locations.then(move |location| {
            let stall = location.as_ref().ok().and_then(|location| {
                let mut stalled = stalled.lock();
                stalled.take_if(|stall| location.prefix_matches(&stall.place))
            });
            async move {
                if let Some(stall) = stall {
                    stall.wait().await;
                }
                location
            }
        });
        self.inner.delete_stream(locations.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        if let Some(folder) = prefix {
            self.make_concurrent_changes(folder).await;
        }
        self.refuse().await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
