//! What the stores of a task must hold after transaction n of a seed: a pure function of both.

use crate::runner::Note;
use crate::subject::{self, Open, Subject};
use fastrand::Rng;
use holdfast_core::{Commit, Error, Offset, OffsetChange, StoreSpec, Task, TopicPartition, Transaction};
use std::collections::BTreeMap;

/// Why a step did not do what the model says.
#[derive(Debug)]
pub enum Fault {
    /// The task answered with an error.
    Store(Error),
    /// The task gave a wrong answer.
    Wrong(String),
}

/// Nothing, or why not.
pub type Outcome = Result<(), Fault>;

impl Fault {
    /// An answer that is not the model's.
    pub fn wrong(what: String, store: &impl std::fmt::Debug, model: &impl std::fmt::Debug) -> Self {
        let (store, model) = (format!("{store:?}"), format!("{model:?}"));
        // Both may be a whole store: show them from shortly before where they part.
        let same = store.bytes().zip(model.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(100);
        let part = |text: &str| text.bytes().skip(same).take(400).map(char::from).collect::<String>();
        Self::Wrong(format!("{what}:\n  the store: … {}\n  the model: … {}", part(&store), part(&model)))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => write!(f, "{:?}: {error}", error.kind()),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

/// The changelog partition whose offset is the number of the last transaction.
fn counter() -> TopicPartition {
    TopicPartition { topic: "transactions".into(), partition: 0 }
}

const PROPERTY: &str = "last private transaction";
/// Purposes of generators, apart from the numbers of transactions.
const ROLLED_BACK: u64 = 1 << 61;
const READS: u64 = 1 << 62;

/// All stores' models, and the offsets and properties beside them.
pub struct World {
    seed: u64,
    n: u64,
    subjects: Vec<Box<dyn Subject>>,
    offsets: BTreeMap<TopicPartition, Offset>,
    property: Option<Vec<u8>>,
}

impl World {
    /// Before the first transaction.
    pub fn new(seed: u64) -> Self {
        Self { seed, n: 0, subjects: subject::all(), offsets: BTreeMap::new(), property: None }
    }

    /// The number of the last transaction.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The task's stores.
    pub fn specs(&self) -> Vec<StoreSpec> {
        self.subjects.iter().map(|subject| subject.spec()).collect()
    }

    /// The same world again.
    pub fn copy(&self) -> Self {
        Self {
            subjects: self.subjects.iter().map(|subject| subject.copy()).collect(),
            offsets: self.offsets.clone(),
            property: self.property.clone(),
            ..*self
        }
    }

    /// The world after transaction `n`, which must not lie behind.
    pub fn advance_to(&mut self, n: u64) {
        while self.n < n {
            let (mut rng, _) = self.begin();
            // Without a task nothing can go wrong.
            let _ = self.writes(&mut rng, None);
            self.offset_changes(&mut rng);
        }
    }

    /// Does the next transaction, in the task and here; after a fault this world is as before.
    pub fn commit_next(&mut self, task: &Task, note: &mut dyn FnMut(Note)) -> Outcome {
        self.roll_back_something(task)?;
        let mut next = self.copy();
        let (mut rng, private) = next.begin();
        let n = next.n;
        if private {
            let mut tx = task.begin()?;
            next.writes(&mut rng, Some(&mut Open { task, tx: &mut tx }))?;
            let offsets = next.offset_changes(&mut rng);
            let properties = next.property.iter().map(|value| (PROPERTY.to_owned(), value.clone())).collect();
            note(Note::Attempting(n));
            task.commit_transaction(tx, Commit { offsets, properties })?;
        } else {
            next.writes(&mut rng, Some(&mut Open { task, tx: &mut *task.transaction()? }))?;
            let offsets = next.offset_changes(&mut rng);
            note(Note::Attempting(n));
            task.commit(offsets)?;
        }
        note(Note::Done(n));
        *self = next;
        Ok(())
    }

    /// Now and then a transaction that is rolled back leaves nothing.
    fn roll_back_something(&self, task: &Task) -> Outcome {
        let mut rng = crate::generator(self.seed, ROLLED_BACK + self.n);
        if rng.u8(..6) > 0 {
            return Ok(());
        }
        let mut never = self.copy();
        never.n += 1;
        never.writes(&mut rng, Some(&mut Open { task, tx: &mut *task.transaction()? }))?;
        task.rollback()?;
        Ok(())
    }

    /// The next transaction's generator, and whether it is a private one.
    fn begin(&mut self) -> (Rng, bool) {
        self.n += 1;
        let mut rng = crate::generator(self.seed, self.n);
        let private = rng.u8(..4) == 0;
        if private {
            self.property = Some(self.n.to_be_bytes().to_vec());
        }
        (rng, private)
    }

    fn writes(&mut self, rng: &mut Rng, mut open: Option<&mut Open<'_>>) -> Outcome {
        // The uncommitted state is read now and then; those draws must not disturb the writes'.
        let mut reads = crate::generator(self.seed, READS + self.n);
        let count = if rng.u8(..20) == 0 { rng.usize(200..800) } else { rng.usize(1..40) };
        for _ in 0..count {
            let subject = rng.usize(..self.subjects.len());
            let subject = &mut self.subjects[subject];
            subject.write(rng, self.n, open.as_deref_mut())?;
            if let Some(open) = &mut open
                && reads.u8(..12) == 0
            {
                subject.read(&mut reads, open)?;
            }
        }
        Ok(())
    }

    fn offset_changes(&mut self, rng: &mut Rng) -> OffsetChange {
        let mut changes = vec![(counter(), Some(Offset(self.n as i64)))];
        if rng.u8(..3) == 0 {
            let tp = TopicPartition { topic: format!("changelog-{}", rng.u8(..3)), partition: rng.i32(0..4) };
            changes.push((tp, (rng.u8(..4) > 0).then(|| Offset(rng.i64(..)))));
        }
        for (tp, offset) in &changes {
            match offset {
                Some(offset) => self.offsets.insert(tp.clone(), *offset),
                None => self.offsets.remove(tp),
            };
        }
        OffsetChange::Set(changes)
    }

    /// The transaction that a task says it stands at.
    pub fn transaction_of(task: &Task) -> Result<u64, Fault> {
        Ok(task.committed_offset(&counter())?.map_or(0, |offset| offset.0 as u64))
    }

    /// Compares everything that the task has committed: all stores, all offsets, the property.
    pub fn check(&self, task: &Task) -> Outcome {
        let offsets: BTreeMap<_, _> = task.committed_offsets()?.into_iter().collect();
        if offsets != self.offsets {
            return Err(Fault::wrong("offsets".into(), &offsets, &self.offsets));
        }
        let property = task.property(PROPERTY)?;
        if property != self.property {
            return Err(Fault::wrong("property".into(), &property, &self.property));
        }
        self.check_view(task, &mut task.begin()?)
    }

    /// Compares everything that a view of the task holds.
    pub fn check_view(&self, task: &Task, view: &mut Transaction) -> Outcome {
        self.subjects.iter().try_for_each(|subject| subject.check(&mut Open { task, tx: view }))
    }
}
