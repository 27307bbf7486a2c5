//! A store in memory with the faults that the root must notice or survive.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// A create of what exists passes and overwrites it.
    CreateOverwrites,
    /// So many creates say "already exists" when nothing is there.
    ExistsFalsely(usize),
}

/// The store.
#[derive(Debug)]
pub struct Careless {
    inner: InMemory,
    fault: Fault,
    puts: AtomicUsize,
}

impl Careless {
    /// An empty store with a fault.
    pub fn new(fault: Fault) -> Self {
        Self { inner: InMemory::new(), fault, puts: AtomicUsize::new(0) }
    }
}

impl fmt::Display for Careless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[async_trait]
impl ObjectStore for Careless {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let put = self.puts.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::CreateOverwrites => options.mode = PutMode::Overwrite,
            Fault::ExistsFalsely(times) if put < times => {
                return Err(Error::AlreadyExists { path: location.to_string(), source: "a fault".into() });
            }
            Fault::None | Fault::ExistsFalsely(_) => {}
        }
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
