//! `followers/<name>/<epoch, 20 digits>`: the first epoch whose changes a named follower needs.
//!
//! A follower is a stream of a table's changes in another query. It puts a record of its next
//! epoch, then removes its earlier records. Hosts retain the log from the lowest epoch that they
//! find, but for at most `max_follower_lag` epochs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};

use super::objects::Objects;
use crate::protocol::{Epoch, is_name_part};

const FOLDER: &str = "followers";

/// The name of a follower: 1 to 100 ASCII letters, digits, `_` or `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FollowerName(String);

impl FollowerName {
    /// Checks a name.
    ///
    /// # Errors
    /// `InvalidValue` for a name that cannot be part of an object's name.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        if is_name_part(&name) {
            return Ok(Self(name));
        }
        Err(Error::new(
            ErrorKind::InvalidValue,
            format!("follower name {name:?}: use 1 to 100 ASCII letters, digits, '_' or '-'"),
        ))
    }

    fn folder(&self) -> String {
        format!("{FOLDER}/{self}")
    }

    fn object(&self, first: Epoch) -> String {
        format!("{}/{:020}", self.folder(), first.0)
    }
}

impl fmt::Display for FollowerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The named followers of a root.
#[derive(Debug)]
pub struct Followers {
    objects: Arc<Objects>,
}

impl Followers {
    /// The followers of a root.
    pub(super) fn new(objects: Arc<Objects>) -> Self {
        Self { objects }
    }

    /// Records that a follower needs the changes of `first` and of all later epochs.
    ///
    /// # Errors
    /// `Io` if the disk fails or the object store refuses the write.
    pub fn put(&self, name: &FollowerName, first: Epoch) -> Result<()> {
        // Listed before the put: a driver that stalled here removes no later record.
        let former = self.epochs(name)?;
        self.objects.put_absent(&name.object(first), b"{}")?;
        for epoch in former {
            if epoch != first {
                self.objects.remove(&name.object(epoch))?;
            }
        }
        Ok(())
    }

    /// Returns the followers, each with the first epoch that it needs.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn list(&self) -> Result<BTreeMap<FollowerName, Epoch>> {
        let mut followers = BTreeMap::new();
        let mut objects = self.objects.list_below(FOLDER)?;
        // A listing of a local folder may miss a record that is replaced meanwhile.
        objects.extend(self.objects.list_below(FOLDER)?);
        for object in objects {
            let Some((name, epoch)) = parse(&object) else {
                continue;
            };
            let first = followers.entry(name).or_insert(epoch);
            // A follower that ended between the put and the removal may need the older epoch.
            *first = epoch.min(*first);
        }
        Ok(followers)
    }

    /// Removes a follower; returns false if there is none of this name.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn remove(&self, name: &FollowerName) -> Result<bool> {
        let epochs = self.epochs(name)?;
        for epoch in &epochs {
            self.objects.remove(&name.object(*epoch))?;
        }
        Ok(!epochs.is_empty())
    }

    fn epochs(&self, name: &FollowerName) -> Result<Vec<Epoch>> {
        let files = self.objects.list(&name.folder())?;
        Ok(files.iter().filter_map(|file| parse_epoch(file)).collect())
    }
}

fn parse(object: &str) -> Option<(FollowerName, Epoch)> {
    let (folder, epoch) = object.rsplit_once('/')?;
    let (_, name) = folder.rsplit_once('/')?;
    Some((FollowerName::new(name).ok()?, parse_epoch(epoch)?))
}

fn parse_epoch(file: &str) -> Option<Epoch> {
    file.parse().ok().map(Epoch)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use object_store::memory::InMemory;

    use super::*;

    fn followers() -> Followers {
        let objects = Objects::over(Arc::new(InMemory::new()), Path::new("memory"));
        Followers::new(Arc::new(objects))
    }

    fn name(name: &str) -> FollowerName {
        FollowerName::new(name).expect("a good name")
    }

    #[test]
    fn the_last_put_counts_even_if_its_epoch_is_earlier() {
        let followers = followers();
        for epoch in [3, 9, 4] {
            followers.put(&name("billing"), Epoch(epoch)).expect("puts");
            followers.put(&name("bill"), Epoch(100)).expect("puts");
            assert_eq!(
                followers.list().expect("lists"),
                [(name("bill"), Epoch(100)), (name("billing"), Epoch(epoch))].into()
            );
        }
    }

    #[test]
    fn an_older_epoch_counts_until_it_is_removed() {
        let followers = followers();
        let billing = name("billing");
        followers.put(&billing, Epoch(3)).expect("puts");
        let newer = billing.object(Epoch(7));
        followers.objects.put_absent(&newer, b"{}").expect("puts");
        assert_eq!(followers.list().expect("lists")[&billing], Epoch(3));
        followers.put(&billing, Epoch(7)).expect("puts");
        assert_eq!(followers.list().expect("lists")[&billing], Epoch(7));
    }

    #[test]
    fn a_removed_follower_is_gone() {
        let followers = followers();
        followers.put(&name("billing"), Epoch(3)).expect("puts");
        assert!(!followers.remove(&name("bill")).expect("removes"));
        assert!(followers.remove(&name("billing")).expect("removes"));
        assert!(followers.list().expect("lists").is_empty());
        assert!(!followers.remove(&name("billing")).expect("removes"));
    }
}
