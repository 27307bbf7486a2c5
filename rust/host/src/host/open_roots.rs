//! The roots that a host has open, by name.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_core::Result;
use parking_lot::Mutex;

use crate::cancellation::Cancellation;
use crate::root::{Root, StorageOptions};

/// The open roots of a host.
#[derive(Default)]
pub struct OpenRoots {
    roots: Mutex<HashMap<String, Arc<Root>>>,
    /// Held while a root is forgotten.
    forgetting: Mutex<()>,
    /// Ends all requests to the roots, and other long work of the host.
    pub cancellation: Cancellation,
}

impl OpenRoots {
    /// Returns the root of a name, which is opened once. Its client uses the newest options; its
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

    /// Sets the root of a name.
    #[cfg(test)]
    pub fn set(&self, name: &str, root: Root) {
        self.roots.lock().insert(name.to_owned(), Arc::new(root));
    }

    /// Returns all roots.
    pub fn all(&self) -> Vec<Arc<Root>> {
        self.roots.lock().values().map(Arc::clone).collect()
    }

    /// Forgets a root after `close`; the next session opens the root anew.
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
