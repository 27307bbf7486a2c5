//! The serdes that the stores' bytes were written with.

use super::opening::Opening;
use crate::database::rows::keys;
use crate::error::Result;
use crate::serde::SerdeSide;
use crate::store::StoreSpec;
use crate::transaction::Batch;

impl Opening {
    /// Checks that the serdes of typed stores can read the stored bytes, and adds their descriptors
    /// to the batch.
    ///
    /// A store that is opened without a serde is not checked and keeps its descriptor: bytes can
    /// always be read as bytes.
    ///
    /// # Errors
    /// `InvalidValue` for another serde or other columns of a key; `Serialization` for columns of a
    /// value that do not fit.
    pub(super) fn push_serdes(&self, stores: &[StoreSpec], batch: &mut Batch) -> Result<()> {
        // A store in memory is empty.
        let in_files = |name: &str| {
            stores
                .iter()
                .any(|spec| spec.name == name && spec.persistent)
        };
        for typed in &self.options.serdes {
            if !in_files(&typed.store) {
                continue;
            }
            let what = match typed.side {
                SerdeSide::Key => "key",
                SerdeSide::Value => "value",
            };
            let row = keys::property_key(&format!("serde:{}:{what}", typed.store));
            if let Some(stored) = self.read(&row)? {
                typed
                    .serde
                    .check_descriptor(&stored, typed.side)
                    .map_err(|error| {
                        error
                            .about(what)
                            .store(&typed.store)
                            .path(self.rocks.path())
                    })?;
            }
            let descriptor = typed.serde.descriptor();
            batch.push(self.families.metadata.id, &row, Some(&descriptor));
        }
        Ok(())
    }
}
