//! Reads and writes the objects of an epoch: heads and chunks.

use holdfast_core::{Error, ErrorKind, Result};

use super::epochs::EpochLog;
use crate::log::{self, ChunkHeader, HeadHeader, Records};
use crate::protocol::{Epoch, ObjectId};
use crate::root::names::{self, ChunkName};
use crate::root::objects::PutOutcome;

/// A head with its own records; the remaining records are in the chunks that it names.
#[derive(Clone, Debug)]
pub struct Head {
    /// The header.
    pub header: HeadHeader,
    /// The records in the head itself.
    pub records: Records,
}

/// How many bytes are read to get a header: enough unless it names many chunks.
const HEADER_BYTES: u64 = 16 << 10;

impl EpochLog {
    /// Reads a head with its records; none if it does not exist.
    ///
    /// # Errors
    /// `Restore` for an object that is damaged or has another object's name.
    pub fn head(&self, epoch: Epoch, object: &ObjectId) -> Result<Option<Head>> {
        let name = names::head(epoch, object);
        let Some(bytes) = self.objects.get(&name)? else {
            return Ok(None);
        };
        let (header, records) = log::decode_head(&self.place(&name), &bytes)?;
        self.check_name(epoch, object, &header)?;
        Ok(Some(Head { header, records }))
    }

    /// Reads the headers of several heads, in their order; none for those that do not exist.
    ///
    /// The records are verified only if a header does not fit into the first 16 KiB.
    ///
    /// # Errors
    /// `Restore` for a header that is damaged or of another object.
    pub fn headers(&self, epoch: Epoch, objects: &[ObjectId]) -> Result<Vec<Option<HeadHeader>>> {
        let names: Vec<String> = objects
            .iter()
            .map(|object| names::head(epoch, object))
            .collect();
        let prefixes = self.objects.get_prefixes(&names, HEADER_BYTES)?;
        let mut headers = Vec::with_capacity(objects.len());
        for ((object, name), prefix) in objects.iter().zip(&names).zip(prefixes) {
            let header = match prefix {
                Some(prefix) => match log::decode_header(&self.place(name), &prefix)? {
                    Some(header) => Some(header),
                    None => self.head_payload(epoch, object)?.map(|(header, _)| header),
                },
                None => None,
            };
            if let Some(header) = &header {
                self.check_name(epoch, object, header)?;
            }
            headers.push(header);
        }
        Ok(headers)
    }

    /// Reads the header of a head, without its records; none if it does not exist.
    ///
    /// # Errors
    /// As [`EpochLog::headers`].
    pub fn head_header(&self, epoch: Epoch, object: &ObjectId) -> Result<Option<HeadHeader>> {
        Ok(self
            .headers(epoch, std::slice::from_ref(object))?
            .pop()
            .flatten())
    }

    /// Reads the header of a head, and its payload as it was given to [`EpochLog::put_head`].
    ///
    /// # Errors
    /// As [`EpochLog::head`].
    pub fn head_payload(
        &self,
        epoch: Epoch,
        object: &ObjectId,
    ) -> Result<Option<(HeadHeader, Vec<u8>)>> {
        let name = names::head(epoch, object);
        let Some(bytes) = self.objects.get(&name)? else {
            return Ok(None);
        };
        let (header, payload) = log::decode_payload(&self.place(&name), &bytes)?;
        self.check_name(epoch, object, &header)?;
        Ok(Some((header, payload.to_vec())))
    }

    /// Puts a head if it is absent; returns the header of a different head that already exists.
    ///
    /// # Errors
    /// `Io` if the disk fails, `Restore` if the existing object is damaged.
    pub fn put_head(&self, header: &HeadHeader, payload: &[u8]) -> Result<Option<HeadHeader>> {
        let object = header.id();
        let name = names::head(header.epoch, &object);
        match self
            .objects
            .put_absent(&name, &log::encode_head(header, payload)?)?
        {
            PutOutcome::Ours => Ok(None),
            PutOutcome::Other(bytes) => {
                let (first, _) = log::decode_payload(&self.place(&name), &bytes)?;
                self.check_name(header.epoch, &object, &first)?;
                Ok(Some(first))
            }
        }
    }

    /// Puts a chunk. Chunks are put before the head that names them.
    ///
    /// # Errors
    /// `InvalidState` if another chunk has this name (a nonce was used twice).
    pub fn put_chunk(&self, name: &ChunkName, payload: &[u8]) -> Result<()> {
        let name = name.to_string();
        let bytes = log::encode_chunk(&ChunkHeader { name: name.clone() }, payload)?;
        match self.objects.put_absent(&name, &bytes)? {
            PutOutcome::Ours => Ok(()),
            PutOutcome::Other(_) => Err(Error::new(
                ErrorKind::InvalidState,
                format!(
                    "chunk {} exists already, with other records: a retry of the task takes \
                     another name",
                    self.place(&name)
                ),
            )),
        }
    }

    /// Reads the records of a chunk that a head names.
    ///
    /// # Errors
    /// `Restore` if it is missing, damaged, or of another operator, partition or epoch.
    pub fn chunk(&self, head: &HeadHeader, name: &str) -> Result<Records> {
        let place = self.place(name);
        let lost = |what: &str| {
            Error::new(
                ErrorKind::Restore,
                format!("chunk {place} {what}. Restore it from a backup of the root"),
            )
        };
        // The run is not compared: a copy of an older run's head names that run's chunks.
        if !name.starts_with(&names::chunks_of(
            head.epoch,
            &head.operator,
            head.partition,
        )) {
            return Err(lost("is named by the head of another object"));
        }
        let bytes = self.objects.get(name)?.ok_or_else(|| lost("is missing"))?;
        log::decode_chunk(&place, name, &bytes)
    }

    /// Removes the chunks of an attempt whose head was not written.
    ///
    /// No head names these chunks: the stored head is an earlier attempt's, or a copy of an older
    /// run's.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn remove_chunks(&self, names: &[String]) -> Result<()> {
        names.iter().try_for_each(|name| self.objects.remove(name))
    }

    fn place(&self, name: &str) -> String {
        self.objects.place(name).display().to_string()
    }

    fn check_name(&self, epoch: Epoch, object: &ObjectId, header: &HeadHeader) -> Result<()> {
        if header.epoch == epoch && header.id() == *object {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Restore,
            format!(
                "log object {} is under a wrong name: its header says {}, epoch {}; restore it \
                 from a backup of the root",
                self.place(&names::head(epoch, object)),
                header.id(),
                header.epoch
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::protocol::{OperatorName, PartitionId, RunNumber};
    use crate::root::Root;

    #[test]
    fn empty_head_is_damage() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = object_store::memory::InMemory::new();
        let local = object_store::local::LocalFileSystem::new_with_prefix(folder.path());
        for root in [
            Root::over(std::sync::Arc::new(memory), Path::new("memory")),
            Root::over(std::sync::Arc::new(local.expect("a store")), folder.path()),
        ] {
            let object = ObjectId {
                operator: OperatorName::new("join").expect("a name"),
                partition: PartitionId(0),
                run: RunNumber(1),
            };
            let name = names::head(Epoch(3), &object);
            root.log.objects.put_absent(&name, b"").expect("puts");
            let error = root
                .log
                .head_header(Epoch(3), &object)
                .expect_err("an empty head");
            assert_eq!(error.kind(), ErrorKind::Restore, "{error}");
        }
    }
}
