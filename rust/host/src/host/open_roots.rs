//! The roots that a host has open, by name.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::Result;
use parking_lot::Mutex;

use crate::cancellation::Cancellation;
use crate::root::{Root, StorageOptions};

/// The time without a session after which a host ends, or closes a query's databases, is at least
/// the query's longest pause times this number.
const PAUSES: u32 = 3;

/// What a session may name: a root and a local folder.
type ServedPlace = (Option<String>, Option<PathBuf>);

/// The open roots of a host.
#[derive(Default)]
pub struct OpenRoots {
    roots: Mutex<HashMap<String, Arc<Root>>>,
    /// Held while a root is forgotten.
    forgetting: Mutex<()>,
    /// The roots and local folders that tasks of the host's own executor have named.
    served: Mutex<HashSet<ServedPlace>>,
    /// When the pauses of a root's query were read, and how long the query may be without a
    /// session.
    pauses: Mutex<HashMap<PathBuf, (Instant, Duration)>>,
    /// Ends all requests to the roots, and other long work of the host.
    pub cancellation: Cancellation,
}

impl OpenRoots {
    /// Returns the root of a name, and opens it once. Its client uses the newest options, and its
    /// requests end with the host.
    pub fn get_or_open(&self, name: &str, options: &StorageOptions) -> Result<Arc<Root>> {
        let known = self.roots.lock().get(name).map(Arc::clone);
        if let Some(root) = known {
            root.renew(options)?;
            return Ok(root);
        }
        let root = Arc::new(Root::open_under(name, options, self.cancellation.clone())?);
        Ok(Arc::clone(
            self.roots.lock().entry(name.to_owned()).or_insert(root),
        ))
    }

    /// Adds what a session of the host's own executor names.
    pub fn serve(&self, root: Option<&str>, local_dir: Option<&Path>) {
        let place = (root.map(str::to_owned), local_dir.map(Path::to_owned));
        self.served.lock().insert(place);
    }

    /// Returns the open root of this name, if a session of the host's own executor has named it
    /// with this local folder.
    pub fn served(&self, root: &str, local_dir: Option<&Path>) -> Option<Arc<Root>> {
        let place = (Some(root.to_owned()), local_dir.map(Path::to_owned));
        if !self.served.lock().contains(&place) {
            return None;
        }
        self.roots.lock().get(root).map(Arc::clone)
    }

    /// Sets the root of a name.
    #[cfg(test)]
    pub fn set(&self, name: &str, root: Root) {
        self.roots.lock().insert(name.to_owned(), Arc::new(root));
    }

    /// Returns how long a query may be without a session: `minimum`, or three times its longest
    /// pause if that is longer. The pauses are read again after `minimum`.
    pub fn idle_limit(&self, root: &Root, minimum: Duration) -> Duration {
        let known = self.pauses.lock().get(root.path()).copied();
        if let Some((read_at, limit)) = known
            && read_at.elapsed() < minimum
        {
            return limit;
        }
        let pause = root.spark.longest_pause().unwrap_or_else(|error| {
            // The root cannot be read, so its databases cannot be used either.
            log::warn!("{}: {error}", root.path().display());
            Duration::ZERO
        });
        let limit = minimum.max(pause.saturating_mul(PAUSES));
        self.pauses
            .lock()
            .insert(root.path().to_owned(), (Instant::now(), limit));
        limit
    }

    /// Returns all roots.
    pub fn all(&self) -> Vec<Arc<Root>> {
        self.roots.lock().values().map(Arc::clone).collect()
    }

    /// Forgets a root after `close`; the next session opens it again.
    ///
    /// Sessions that also found the root gone wait here until its databases are closed, because
    /// their own databases may have the same directories.
    pub fn forget(&self, root: &Arc<Root>, close: impl FnOnce()) {
        let _one_at_a_time = self.forgetting.lock();
        let is_known = self
            .roots
            .lock()
            .values()
            .any(|other| Arc::ptr_eq(other, root));
        if is_known {
            close();
            self.roots
                .lock()
                .retain(|_, other| !Arc::ptr_eq(other, root));
        }
    }
}
