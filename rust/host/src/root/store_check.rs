//! Checks the store under a root for `holdfast doctor`.

use std::hash::{BuildHasher, Hasher, RandomState};

use holdfast_core::Result;
use object_store::ObjectStoreExt;
use object_store::path::Path as Name;

use super::state_root::Root;

/// How a store handled an object that was put for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCheck {
    /// Whether a second create of the object failed, as the protocol requires.
    pub refuses_second: bool,
    /// When the object was put, by the store's clock, in epoch milliseconds; none if the object was
    /// not found.
    pub put_at: Option<i64>,
}

impl Root {
    /// Puts an object of a random name twice, reads its time, and removes it.
    ///
    /// # Errors
    /// `Io` if the disk or the store fails. The object may then remain.
    pub fn check_store(&self) -> Result<StoreCheck> {
        let random = RandomState::new().build_hasher().finish();
        let name = format!("doctor-{random:016x}");
        let refused = self.objects.refuses_second(&name, b"of holdfast doctor\n");
        let time = self.put_time(&name);
        self.objects.remove(&name)?;
        Ok(StoreCheck {
            refuses_second: refused?,
            put_at: time?,
        })
    }

    fn put_time(&self, name: &str) -> Result<Option<i64>> {
        let objects = self.objects.objects();
        let location = Name::from(name);
        let head = self.objects.wait(objects.head(&location))?;
        let found = self.objects.found("check", name, head)?;
        Ok(found.map(|meta| meta.last_modified.timestamp_millis()))
    }
}
