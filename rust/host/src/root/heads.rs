//! Log objects: heads and chunks.

use std::fmt;

use holdfast_core::{Error, ErrorKind, Result};

use super::store::Put;
use super::{Root, names};
use crate::log::{self, ChunkHeader, HeadHeader, Records};
use crate::protocol::{Attempt, Epoch, ObjectId, OperatorName, PartitionId, RunNumber};

/// A head with the records that it holds itself; the rest lies in the chunks that it names.
#[derive(Clone, Debug)]
pub struct Head {
    /// What it says.
    pub header: HeadHeader,
    /// The records in the head.
    pub records: Records,
}

/// The name of a chunk. Attempt and nonce keep the chunks of twins apart, and of attempts that
/// share a number because they belong to different applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkName {
    /// Of which epoch.
    pub epoch: Epoch,
    /// Beside which head.
    pub object: ObjectId,
    /// Written by which attempt.
    pub attempt: Attempt,
    /// Chance, from outside: hexadecimal digits.
    pub nonce: String,
    /// The chunk's number, from 0.
    pub index: u32,
}

impl fmt::Display for ChunkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}-{}.{}",
            names::head(self.epoch, &self.object),
            self.attempt,
            self.nonce,
            self.index
        )
    }
}

impl Root {
    /// The heads of an epoch, of one operator or of all.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn objects(&self, operator: Option<&OperatorName>, epoch: Epoch) -> Result<Vec<ObjectId>> {
        let files = self.store.list(&names::epoch(epoch))?;
        let heads = files.iter().filter_map(|file| names::parse_head(file));
        Ok(heads
            .filter(|object| operator.is_none_or(|operator| *operator == object.operator))
            .collect())
    }

    /// A head with its records, if it is there.
    ///
    /// # Errors
    /// `Restore` for a damaged object or one that lies under another one's name.
    pub fn head(
        &self,
        operator: &OperatorName,
        epoch: Epoch,
        partition: PartitionId,
        run: RunNumber,
    ) -> Result<Option<Head>> {
        let object = ObjectId {
            operator: operator.clone(),
            partition,
            run,
        };
        let name = names::head(epoch, &object);
        let Some(bytes) = self.store.get(&name)? else {
            return Ok(None);
        };
        let (header, records) = log::decode_head(&self.shown(&name), &bytes)?;
        self.check_place(epoch, &object, &header)?;
        Ok(Some(Head { header, records }))
    }

    /// What a head says, without its records.
    ///
    /// # Errors
    /// As [`Root::head`].
    pub fn head_header(&self, epoch: Epoch, object: &ObjectId) -> Result<Option<HeadHeader>> {
        let name = names::head(epoch, object);
        let Some(bytes) = self.store.get(&name)? else {
            return Ok(None);
        };
        let header = log::decode_header(&self.shown(&name), &bytes)?;
        self.check_place(epoch, object, &header)?;
        Ok(Some(header))
    }

    /// What a head says, and its payload as it was given to [`Root::put_head`].
    ///
    /// # Errors
    /// As [`Root::head`].
    pub fn head_payload(
        &self,
        epoch: Epoch,
        object: &ObjectId,
    ) -> Result<Option<(HeadHeader, Vec<u8>)>> {
        let name = names::head(epoch, object);
        let Some(bytes) = self.store.get(&name)? else {
            return Ok(None);
        };
        let (header, payload) = log::decode_payload(&self.shown(&name), &bytes)?;
        self.check_place(epoch, object, &header)?;
        Ok(Some((header, payload.to_vec())))
    }

    /// Puts a head if it is absent: none if it is ours now, else what the first one says.
    ///
    /// # Errors
    /// `Io` for what the disk refuses, `Restore` if what is there is damaged.
    pub fn put_head(&self, header: &HeadHeader, payload: &[u8]) -> Result<Option<HeadHeader>> {
        let object = header.id();
        let name = names::head(header.epoch, &object);
        match self
            .store
            .put_absent(&name, &log::encode_head(header, payload)?)?
        {
            Put::Own => Ok(None),
            Put::Other(bytes) => {
                let first = log::decode_header(&self.shown(&name), &bytes)?;
                self.check_place(header.epoch, &object, &first)?;
                Ok(Some(first))
            }
        }
    }

    /// Puts a chunk. Chunks come before the head that names them.
    ///
    /// # Errors
    /// `InvalidState` if there is another chunk of this name (a nonce was used twice).
    pub fn put_chunk(&self, name: &ChunkName, payload: &[u8]) -> Result<()> {
        let name = name.to_string();
        let bytes = log::encode_chunk(&ChunkHeader { name: name.clone() }, payload)?;
        match self.store.put_absent(&name, &bytes)? {
            Put::Own => Ok(()),
            Put::Other(_) => Err(Error::new(
                ErrorKind::InvalidState,
                format!(
                    "chunk {} is there already, with other records: a retry of the task takes \
                     another name",
                    self.shown(&name)
                ),
            )),
        }
    }

    /// The records of a chunk that a head names.
    ///
    /// # Errors
    /// `Restore` if it is missing, damaged or not this head's.
    pub fn chunk(&self, head: &HeadHeader, name: &str) -> Result<Records> {
        let shown = self.shown(name);
        let lost = |what: &str| {
            Error::new(
                ErrorKind::Restore,
                format!("chunk {shown} {what}. Restore it from a backup of the root"),
            )
        };
        // A copy of an older run's head names that run's chunks.
        if !name.starts_with(&names::staged(head.epoch, &head.operator, head.partition)) {
            return Err(lost("is named by the head of another object"));
        }
        let bytes = self.store.get(name)?.ok_or_else(|| lost("is missing"))?;
        log::decode_chunk(&shown, name, &bytes)
    }

    /// Removes chunks that no head names, of an attempt that failed or came second.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn remove_chunks(&self, names: &[String]) -> Result<()> {
        names.iter().try_for_each(|name| self.store.remove(name))
    }

    fn shown(&self, name: &str) -> String {
        self.store.place(name).display().to_string()
    }

    fn check_place(&self, epoch: Epoch, object: &ObjectId, header: &HeadHeader) -> Result<()> {
        if header.epoch == epoch && header.id() == *object {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Restore,
            format!(
                "log object {} is another one, under a wrong name ({}, epoch {}): restore it from \
                 a backup of the root",
                self.shown(&names::head(epoch, object)),
                header.id(),
                header.epoch
            ),
        ))
    }
}
