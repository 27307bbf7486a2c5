//! The serdes that a database's stores were written with.

use super::commit::Commit;
use super::database::Database;
use crate::error::Result;
use crate::offset::OffsetChange;
use crate::serde::{Serde, SerdeSide};

impl Database {
    /// Checks that the serdes of typed stores can read the stored bytes, and stores their
    /// descriptors.
    ///
    /// A store that is opened without a serde is not checked and keeps its descriptor: bytes can
    /// always be read as bytes.
    ///
    /// # Errors
    /// `InvalidValue` for another serde or other columns of a key, or for a store that the database
    /// does not have; `Serialization` for columns of a value that do not fit; those of
    /// [`Database::commit_transaction`].
    pub fn keep_serdes(&self, serdes: &[(String, SerdeSide, &Serde)]) -> Result<()> {
        let mut properties = Vec::new();
        for (store, side, serde) in serdes {
            // A store in memory is empty.
            if !self.entry(store)?.spec.persistent {
                continue;
            }
            let what = match side {
                SerdeSide::Key => "key",
                SerdeSide::Value => "value",
            };
            let (name, descriptor) = (format!("serde:{store}:{what}"), serde.descriptor());
            let stored = self.property(&name)?;
            if let Some(stored) = &stored {
                serde
                    .check_descriptor(stored, *side)
                    .map_err(|error| error.about(what).store(store).path(self.path()))?;
            }
            if stored.as_ref() != Some(&descriptor) {
                properties.push((name, descriptor));
            }
        }
        if properties.is_empty() {
            return Ok(());
        }
        self.commit_transaction(
            self.begin()?,
            Commit {
                offsets: OffsetChange::Keep,
                properties,
            },
        )
    }
}
