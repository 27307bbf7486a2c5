//! Which serdes a database's stores were written with.

use super::{Commit, Database};
use crate::error::Result;
use crate::offset::OffsetChange;
use crate::serde::{Serde, SerdeSide};

impl Database {
    /// Checks that typed stores are opened with serdes that can read what they were written with,
    /// and remembers these. A store that is opened without a serde is not asked, and forgets
    /// nothing: bytes can always be read as bytes.
    ///
    /// # Errors
    /// `InvalidValue` for another serde or other columns of a key, or for a store that the database
    /// does not have; `Serialization` for columns of a value that do not fit; those of
    /// [`Database::commit_transaction`].
    pub fn keep_serdes(&self, serdes: &[(String, SerdeSide, &Serde)]) -> Result<()> {
        let mut properties = Vec::new();
        for (store, side, serde) in serdes {
            // Nothing is left of what a store in memory was written with.
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
