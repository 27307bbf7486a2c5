//! What the stores of a database must hold after transaction n of a seed: a pure function of both,
//! but for the stores that an unclean stop empties ([`Keeping`]), which hold what was written
//! since.

use crate::runner::{Note, Reached};
use crate::subject::{self, Keeping, Open, Store};
use fastrand::Rng;
use holdfast_core::{
    Commit, Database, Error, Offset, OffsetChange, StoreSpec, TopicPartition, Transaction,
};
use std::collections::BTreeMap;

/// Why a step did not do what the model says.
#[derive(Debug)]
pub enum Fault {
    /// The database answered with an error.
    Store(Error),
    /// The database gave a wrong answer.
    Wrong(String),
}

/// Nothing, or why not.
pub type Outcome = Result<(), Fault>;

impl Fault {
    /// An answer that is not the model's.
    pub fn wrong(what: String, store: &impl std::fmt::Debug, model: &impl std::fmt::Debug) -> Self {
        let (store, model) = (format!("{store:?}"), format!("{model:?}"));
        // Both may be a whole store: show them from shortly before where they part.
        let same = store
            .bytes()
            .zip(model.bytes())
            .take_while(|(a, b)| a == b)
            .count()
            .saturating_sub(100);
        let part = |text: &str| {
            text.bytes()
                .skip(same)
                .take(400)
                .map(char::from)
                .collect::<String>()
        };
        Self::Wrong(format!(
            "{what}:\n  the store: … {}\n  the model: … {}",
            part(&store),
            part(&model)
        ))
    }

    /// A wrong answer, with the store that gave it.
    fn of(self, store: &Store) -> Self {
        match self {
            Self::Wrong(what) => Self::Wrong(format!("{}: {what}", store.spec().name)),
            error => error,
        }
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
    TopicPartition {
        topic: "transactions".into(),
        partition: 0,
    }
}

const PROPERTY: &str = "last private transaction";
/// Purposes of generators, apart from the numbers of transactions.
const ROLLED_BACK: u64 = 1 << 61;
const READS: u64 = 1 << 62;

/// By partition; nothing where a store has lost its data.
type Offsets = BTreeMap<TopicPartition, Option<Offset>>;

/// All stores' models, and the offsets and properties beside them.
pub struct World {
    seed: u64,
    n: u64,
    /// Each with the offsets that it stands at.
    stores: Vec<(Store, Offsets)>,
    property: Option<Vec<u8>>,
    /// The transaction behind which the stores without transactions were last emptied.
    emptied: u64,
    /// What the world is if the commit or the write that was last attempted has happened, and has
    /// not returned.
    attempted: Option<Box<World>>,
}

impl World {
    /// Before the first transaction.
    pub fn new(seed: u64) -> Self {
        let stores = subject::all()
            .into_iter()
            .map(|store| (store, Offsets::new()))
            .collect();
        Self {
            seed,
            n: 0,
            stores,
            property: None,
            emptied: 0,
            attempted: None,
        }
    }

    /// After transaction `n`, just opened; the stores without transactions were last emptied behind
    /// `emptied`.
    pub fn at(seed: u64, n: u64, emptied: u64) -> Self {
        let mut world = Self::new(seed);
        world.advance_to(emptied);
        world.lose(false);
        world.advance_to(n);
        world.lose(true);
        world
    }

    /// The number of the last transaction.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The transaction behind which the stores without transactions were last emptied.
    pub fn emptied(&self) -> u64 {
        self.emptied
    }

    /// The database's stores.
    pub fn specs(&self) -> Vec<StoreSpec> {
        self.stores.iter().map(|(store, _)| store.spec()).collect()
    }

    /// The same, with transactions for all of them.
    pub fn transactional_specs(&self) -> Vec<StoreSpec> {
        self.specs()
            .into_iter()
            .map(|spec| StoreSpec {
                transactional: true,
                ..spec
            })
            .collect()
    }

    /// The same world again.
    pub fn copy(&self) -> Self {
        let stores = self
            .stores
            .iter()
            .map(|(store, offsets)| (store.copy(), offsets.clone()))
            .collect();
        Self {
            stores,
            property: self.property.clone(),
            attempted: None,
            ..*self
        }
    }

    /// The world after transaction `n`, which must not lie behind.
    pub fn advance_to(&mut self, n: u64) {
        while self.n < n {
            // Without a database nothing can go wrong.
            let _ = self.roll_back_something(None);
            let (mut rng, _) = self.begin();
            let _ = self.writes(&mut rng, None, None);
            self.offset_changes(&mut rng);
        }
    }

    /// The database was stopped, cleanly or not: what is in memory is gone, and after an unclean
    /// stop also what was written without transactions (T19).
    pub fn lose(&mut self, cleanly: bool) {
        for ((store, offsets), empty) in self.stores.iter_mut().zip(subject::all()) {
            let lost = match store.keeping {
                Keeping::Transactional => false,
                Keeping::Direct => !cleanly,
                Keeping::Memory => true,
            };
            if lost {
                *store = empty;
                offsets.values_mut().for_each(|offset| *offset = None);
            }
        }
        if !cleanly {
            self.emptied = self.n;
        }
    }

    /// As `lose`, after a stop at any moment; `db` is the one opened behind it. A stop within a
    /// reopen, between the close and the opening, may have been a clean one.
    pub fn lose_as_stopped(&mut self, db: &Database, reached: &Reached) {
        let mut cleanly = self.copy();
        cleanly.lose(true);
        if !reached.open && cleanly.check(db).is_ok() {
            *self = cleanly;
        } else {
            self.lose(false);
        }
    }

    /// Does the next transaction, in the database and here. After a fault, also after a panic, this
    /// world is as before, except for what went into stores without transactions.
    pub fn commit_next(&mut self, db: &Database, note: &mut dyn FnMut(Note)) -> Outcome {
        self.roll_back_something(Some(db))?;
        let mut next = self.copy();
        let (mut rng, private) = next.begin();
        let n = next.n;
        if private {
            let mut tx = db.begin()?;
            next.writes(&mut rng, Some(&mut Open { db, tx: &mut tx }), None)?;
            let offsets = next.offset_changes(&mut rng);
            let properties = next
                .property
                .iter()
                .map(|value| (PROPERTY.to_owned(), value.clone()))
                .collect();
            note(Note::Attempting(n));
            self.attempted = Some(Box::new(next));
            db.commit_transaction(
                tx,
                Commit {
                    offsets,
                    properties,
                },
            )?;
        } else {
            next.writes(
                &mut rng,
                Some(&mut Open {
                    db,
                    tx: &mut *db.transaction()?,
                }),
                Some(self),
            )?;
            let offsets = next.offset_changes(&mut rng);
            note(Note::Attempting(n));
            self.attempted = Some(Box::new(next));
            db.commit(offsets)?;
        }
        note(Note::Done(n));
        self.go_forward();
        Ok(())
    }

    /// The commit that was last attempted, or the write past it, has happened, whatever it
    /// returned.
    pub fn go_forward(&mut self) {
        if let Some(attempted) = self.attempted.take() {
            *self = *attempted;
        }
    }

    /// Now and then a transaction that is rolled back leaves nothing, but for what was written
    /// without transactions.
    fn roll_back_something(&mut self, db: Option<&Database>) -> Outcome {
        let mut rng = crate::generator(self.seed, ROLLED_BACK + self.n);
        if rng.u8(..6) > 0 {
            return Ok(());
        }
        let mut never = self.copy();
        never.n += 1;
        let Some(db) = db else {
            return never.writes(&mut rng, None, Some(self));
        };
        never.writes(
            &mut rng,
            Some(&mut Open {
                db,
                tx: &mut *db.transaction()?,
            }),
            Some(self),
        )?;
        db.rollback()?;
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

    /// A transaction's writes. `through` is the world that keeps what goes straight through.
    fn writes(
        &mut self,
        rng: &mut Rng,
        mut open: Option<&mut Open<'_>>,
        mut through: Option<&mut Self>,
    ) -> Outcome {
        // The uncommitted state is read and spilled now and then; those draws must not disturb the
        // writes'.
        let mut reads = crate::generator(self.seed, READS + self.n);
        let count = if rng.u8(..20) == 0 {
            rng.usize(200..800)
        } else {
            rng.usize(1..40)
        };
        let spills = if reads.u8(..12) == 0 {
            reads.usize(..count)
        } else {
            usize::MAX
        };
        for write in 0..count {
            if write == spills
                && let Some(open) = &mut open
            {
                open.tx.spill()?;
            }
            let n = rng.usize(..self.stores.len());
            let store = &mut self.stores[n].0;
            // What one store draws may hang on what it holds, which must not change what the next
            // one draws.
            store
                .subject
                .write(&mut rng.fork(), self.n, open.as_deref_mut())
                .map_err(|fault| fault.of(store))?;
            if let Some(through) = &mut through {
                let written = open
                    .as_deref_mut()
                    .map_or(Ok(()), |open| open.db.write_through(open.tx));
                if store.keeping == Keeping::Direct {
                    match written {
                        Ok(()) => through.stores[n].0 = store.copy(),
                        // It may have happened all the same.
                        Err(_) => {
                            let mut happened = through.copy();
                            happened.stores[n].0 = store.copy();
                            through.attempted = Some(Box::new(happened));
                        }
                    }
                }
                written?;
            }
            if let Some(open) = &mut open
                && reads.u8(..12) == 0
            {
                store
                    .subject
                    .read(&mut reads, open)
                    .map_err(|fault| fault.of(store))?;
            }
        }
        Ok(())
    }

    fn offset_changes(&mut self, rng: &mut Rng) -> OffsetChange {
        let mut changes = vec![(counter(), Some(Offset(self.n as i64)))];
        if rng.u8(..3) == 0 {
            let tp = TopicPartition {
                topic: format!("changelog-{}", rng.u8(..3)),
                partition: rng.i32(0..4),
            };
            changes.push((tp, (rng.u8(..4) > 0).then(|| Offset(rng.i64(..)))));
        }
        for (_, offsets) in &mut self.stores {
            for (tp, offset) in &changes {
                match offset {
                    Some(_) => offsets.insert(tp.clone(), *offset),
                    None => offsets.remove(tp),
                };
            }
        }
        OffsetChange::Set(changes)
    }

    /// The transaction that a database says it stands at.
    pub fn transaction_of(db: &Database) -> Result<u64, Fault> {
        let store = subject::all()
            .into_iter()
            .find(|store| store.keeping == Keeping::Transactional);
        let offset = store
            .map(|store| db.store_offset(&store.spec().name, &counter()))
            .transpose()?
            .flatten();
        Ok(offset.map_or(0, |offset| offset.0 as u64))
    }

    /// Compares everything that the database has committed: all stores, all offsets, the property.
    pub fn check(&self, db: &Database) -> Outcome {
        for (store, offsets) in &self.stores {
            let name = store.spec().name;
            for (tp, offset) in offsets {
                subject::same(
                    || format!("offset of {name} in {tp:?}"),
                    &db.store_offset(&name, tp)?,
                    offset,
                )?;
            }
        }
        // The database's own: the least of all stores', and none where one has lost its data.
        let all = self.stores.iter().flat_map(|(_, offsets)| offsets);
        let mut least = Offsets::new();
        for (tp, offset) in all {
            let known = least.entry(tp.clone()).or_insert(*offset);
            *known = (*known).min(*offset);
        }
        let least: BTreeMap<_, _> = least
            .into_iter()
            .filter_map(|(tp, offset)| Some((tp, offset?)))
            .collect();
        subject::same(
            || "offsets".into(),
            &db.committed_offsets()?.into_iter().collect(),
            &least,
        )?;
        subject::same(
            || "property".into(),
            &db.property(PROPERTY)?,
            &self.property,
        )?;
        self.check_view(db, &mut db.begin()?)
    }

    /// Compares everything that a view of the database holds.
    pub fn check_view(&self, db: &Database, view: &mut Transaction) -> Outcome {
        self.stores.iter().try_for_each(|(store, _)| {
            store
                .subject
                .check(&mut Open { db, tx: view })
                .map_err(|fault| fault.of(store))
        })
    }
}
