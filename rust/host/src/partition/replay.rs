//! From the log (or from memory, where the same changes wait) into the database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result, Task, Timestamp, Transaction, VersionRow};

use super::{Inner, Partition, Prepared, Wanted, chain};
use crate::log::{HeadHeader, Records};
use crate::protocol::{Digest, Epoch, ObjectId, Violation};
use crate::root::{Head, Root};

/// A restore that takes longer than this says how far it is, each time this has passed.
const PROGRESS: Duration = Duration::from_secs(2);

impl Partition {
    /// Applies the deciding objects of these epochs, both included, each as one commit.
    pub(super) fn roll_forward(&self, inner: &mut Inner, wanted: &Wanted<'_>, from: Epoch, to: Epoch) -> Result<()> {
        let (started, mut told, mut records) = (Instant::now(), Instant::now(), 0);
        let mut epoch = from;
        while epoch <= to {
            records += self.apply(inner, wanted, epoch)?;
            if told.elapsed() > PROGRESS {
                told = Instant::now();
                let (done, all) = (epoch.0 - from.0 + 1, to.0 - from.0 + 1);
                let left = started.elapsed().mul_f64((all - done) as f64 / done as f64);
                log::info!("{self}: epoch {done} of {all} restored, {records} records, about {:.0} s left", left.as_secs_f64());
            }
            epoch = epoch.next();
        }
        if to > from || records > 0 && started.elapsed() > PROGRESS {
            log::info!("{self}: epochs {from} to {to} restored in {:.2} s, {records} records", started.elapsed().as_secs_f64());
        }
        let run = wanted.run;
        inner.opened()?.checked = Some(run);
        Ok(())
    }

    /// Applies one epoch; returns how many records came from the log.
    fn apply(&self, inner: &mut Inner, wanted: &Wanted<'_>, epoch: Epoch) -> Result<u64> {
        let task = Arc::clone(inner.task()?);
        let base = chain(&task)?;
        let decided = self.decided(wanted, epoch)?;
        let missing = || Error::from(Violation::ObjectMissing { object: decided.clone(), epoch });
        if inner.prepared.iter().any(|prepared| prepared.epoch == epoch && prepared.base == base) {
            let header = self.root.head_header(epoch, &decided)?.ok_or_else(missing)?;
            self.check_base(&header, &decided, base)?;
            if let Some(prepared) = inner.take_prepared(&header)
                && self.apply_prepared(&task, prepared, &header)?
            {
                return Ok(0);
            }
        }
        let head = self.root.head(&decided.operator, epoch, decided.partition, decided.run)?.ok_or_else(missing)?;
        self.check_base(&head.header, &decided, base)?;
        let mut tx = task.begin()?;
        apply_object(&self.root, &task, &mut tx, &head)?;
        task.commit_transaction(tx, self.commit(epoch, head.header.chain()))?;
        Ok(head.header.records)
    }

    /// Commits what a session of this host has staged; false if it cannot be, then the log has it.
    fn apply_prepared(&self, task: &Task, prepared: Prepared, header: &HeadHeader) -> Result<bool> {
        match task.commit_transaction(prepared.transaction, self.commit(header.epoch, header.chain())) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::InvalidState => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn check_base(&self, header: &HeadHeader, object: &ObjectId, base: Digest) -> Result<()> {
        if header.base == base {
            return Ok(());
        }
        Err(Violation::BrokenChain { object: object.clone(), epoch: header.epoch }.into())
    }
}

/// Stages all that an object holds.
///
/// # Errors
/// `Restore` for an object that cannot be read.
pub fn apply_object(root: &Root, task: &Task, tx: &mut Transaction, head: &Head) -> Result<()> {
    for chunk in &head.header.chunks {
        restore(task, tx, &root.chunk(&head.header, chunk)?)?;
    }
    restore(task, tx, &head.records)?;
    for (store, time) in &head.header.stream_times {
        task.apply_changes(store, tx, &[], Some(Timestamp(*time)))?;
    }
    Ok(())
}

impl Inner {
    /// The prepared changes that an object describes. All others, of this epoch or older, have lost.
    fn take_prepared(&mut self, header: &HeadHeader) -> Option<Prepared> {
        let mut chosen = None;
        for prepared in std::mem::take(&mut self.prepared) {
            if (prepared.epoch, prepared.base, prepared.digest) == (header.epoch, header.base, header.digest) {
                chosen = Some(prepared);
            } else if prepared.epoch > header.epoch {
                self.prepared.push(prepared);
            }
        }
        chosen
    }
}

/// Stages records as they are: they were accepted once, so there is no acceptance test and no order.
fn restore(task: &Task, tx: &mut Transaction, records: &Records) -> Result<()> {
    let mut rows = Vec::new();
    let mut current: Option<&str> = None;
    let mut timed = false;
    let flush = |store: Option<&str>, rows: &mut Vec<VersionRow<'_>>, tx: &mut Transaction| -> Result<()> {
        if let Some(store) = store {
            task.apply_changes(store, tx, rows, None)?;
        }
        rows.clear();
        Ok(())
    };
    for record in records.iter() {
        if current != Some(record.store) {
            flush(current, &mut rows, tx)?;
            current = Some(record.store);
            timed = task.stores().any(|spec| spec.name == record.store && spec.kind.restores_with_times());
        }
        let timestamp = match record.timestamp {
            Some(timestamp) => timestamp,
            None if timed => {
                let text = "a log record of a store with times has none: restore log/ from a backup";
                return Err(Error::new(ErrorKind::Restore, text).store(record.store));
            }
            None => Timestamp(0),
        };
        rows.push(VersionRow { key: record.key, value: record.value, timestamp });
    }
    flush(current, &mut rows, tx)
}
