//! A store in memory with the faults that the root must notice or survive.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
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

use super::names;
use crate::protocol::{Epoch, RunNumber};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A create of what exists passes and overwrites it.
    CreateOverwrites,
    /// So many creates say "already exists" when nothing is there.
    ExistsFalsely(usize),
    /// The log of epoch 0 goes with the claim of run 2: another host has come to remove it.
    ForgetsWithClaim,
    /// One call in ten (which ones, the seed says) goes wrong in one of these ways: it is refused;
    /// what it does takes place and its answer is lost; it takes place later, when nobody expects
    /// it any more; it comes late; it breaks off in the middle of an object.
    OneInTen(u64),
}

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    Refused,
    AnswerLost,
    Postponed,
    Late,
}

/// The store.
#[derive(Debug)]
pub struct Careless {
    inner: InMemory,
    fault: Mutex<Fault>,
    puts: AtomicUsize,
    requests: AtomicUsize,
    calls: AtomicUsize,
    /// How many calls have gone wrong.
    mishaps: AtomicUsize,
    postponed: Mutex<Vec<(Path, PutPayload, PutOptions)>>,
    /// What others do right before a folder is listed or an object is put, once.
    meanwhile: Mutex<Option<(Path, Vec<Doing>)>>,
}

/// What somebody else does.
#[derive(Debug)]
pub enum Doing {
    /// Puts an object.
    Puts(String, Vec<u8>),
    /// Removes one.
    Removes(String),
}

impl Careless {
    /// An empty store with a fault.
    pub fn new(fault: Fault) -> Self {
        Self {
            inner: InMemory::new(),
            fault: Mutex::new(fault),
            puts: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            mishaps: AtomicUsize::new(0),
            postponed: Mutex::default(),
            meanwhile: Mutex::default(),
        }
    }

    /// Right before this folder is listed, or this object put, others do this.
    pub fn meanwhile(&self, place: &str, doings: Vec<Doing>) {
        *self.meanwhile.lock() = Some((Path::from(place), doings));
    }

    async fn let_others(&self, place: &Path) {
        let doings = self
            .meanwhile
            .lock()
            .take_if(|(of, _)| of == place)
            .map(|(_, doings)| doings);
        for doing in doings.unwrap_or_default() {
            let done = match doing {
                Doing::Puts(name, content) => {
                    self.inner.put(&name.into(), content.into()).await.map(drop)
                }
                Doing::Removes(name) => self.inner.delete(&name.into()).await,
            };
            done.expect("memory takes it");
        }
    }

    /// Has no faults from now on; what was postponed takes place. Returns how many calls have gone
    /// wrong.
    pub async fn mend(&self) -> usize {
        *self.fault.lock() = Fault::None;
        self.catch_up().await;
        self.mishaps.load(Ordering::Relaxed)
    }

    /// Puts that were postponed take place, in front of whatever comes now.
    async fn catch_up(&self) {
        let postponed = mem::take(&mut *self.postponed.lock());
        for (location, payload, options) in postponed {
            // Nobody waits for its answer.
            let _ = self.inner.put_opts(&location, payload, options).await;
        }
    }

    /// How many calls there were, apart from removals.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    async fn mishap(&self) -> Option<Mishap> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let Fault::OneInTen(seed) = *self.fault.lock() else {
            return None;
        };
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let chance = xxh3_64_with_seed(&call.to_le_bytes(), seed);
        if !chance.is_multiple_of(10) {
            return None;
        }
        self.mishaps.fetch_add(1, Ordering::Relaxed);
        let mishap = [
            Mishap::Refused,
            Mishap::AnswerLost,
            Mishap::Postponed,
            Mishap::Late,
        ][(chance >> 32) as usize % 4];
        if mishap == Mishap::Late {
            tokio::time::sleep(Duration::from_millis(1)).await;
            return None;
        }
        Some(mishap)
    }

    async fn refuse(&self) -> Result<()> {
        let mishap = self.mishap().await;
        self.catch_up().await;
        mishap.map_or(Ok(()), |_| Err(broken()))
    }
}

fn broken() -> Error {
    Error::Generic {
        store: "careless",
        source: "a fault".into(),
    }
}

impl fmt::Display for Careless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[async_trait]
impl ObjectStore for Careless {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        self.let_others(location).await;
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
            Fault::ForgetsWithClaim if *location == Path::from(names::claim(RunNumber(2))) => {
                let forgotten = self
                    .inner
                    .list(Some(&Path::from(names::epoch(Epoch(0)))))
                    .map(|found| found.map(|meta| meta.location));
                self.inner
                    .delete_stream(forgotten.boxed())
                    .for_each(|_| async {})
                    .await;
            }
            Fault::None
            | Fault::ForgetsWithClaim
            | Fault::ExistsFalsely(_)
            | Fault::OneInTen(_) => {}
        }
        let mishap = self.mishap().await;
        self.catch_up().await;
        match mishap {
            None | Some(Mishap::Late) => self.inner.put_opts(location, payload, options).await,
            Some(Mishap::Refused) => Err(broken()),
            Some(Mishap::AnswerLost) => self
                .inner
                .put_opts(location, payload, options)
                .await
                .and_then(|_| Err(broken())),
            Some(Mishap::Postponed) => {
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
        self.refuse().await?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        // Not before: what is postponed may come right behind the look that did not find it.
        let mishap = self.mishap().await;
        let found = if mishap == Some(Mishap::Refused) {
            Err(broken())
        } else {
            self.inner.get_opts(location, options).await
        };
        self.catch_up().await;
        let mut found = found?;
        if mishap == Some(Mishap::AnswerLost) {
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
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        if let Some(folder) = prefix {
            self.let_others(folder).await;
        }
        self.refuse().await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
