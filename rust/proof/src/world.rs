//! What the stores of a database must hold after transaction n of a seed: a pure function of n and
//! the seed. A store that a stop empties ([`WriteMode`]) holds what was written since the last such
//! stop.

use crate::progress::{Note, RunProgress};
use crate::step_error::{StepError, StepResult};
use crate::subject::{self, OpenTransaction, Store, WriteMode};
use fastrand::Rng;
use holdfast_core::{
    Commit, Database, Offset, OffsetChange, StoreSpec, TopicPartition, Transaction,
};
use std::collections::BTreeMap;

/// The changelog partition whose offset is the number of the last transaction.
fn counter() -> TopicPartition {
    TopicPartition {
        topic: "transactions".into(),
        partition: 0,
    }
}

const PROPERTY: &str = "last private transaction";
/// Purposes of generators, distinct from transaction numbers.
const ROLLED_BACK: u64 = 1 << 61;
const READS: u64 = 1 << 62;

/// Offsets by partition; `None` if a store has lost its data.
type Offsets = BTreeMap<TopicPartition, Option<Offset>>;

/// All stores' models, and the offsets and properties beside them.
pub struct World {
    seed: u64,
    n: u64,
    /// The stores, each with its offsets.
    stores: Vec<(Store, Offsets)>,
    property: Option<Vec<u8>>,
    /// The transaction after which the stores without transactions were last emptied.
    emptied: u64,
    /// The world if the last attempted commit or write took effect, although it failed or panicked.
    attempted: Option<Box<World>>,
}

impl World {
    /// Returns the world before the first transaction.
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

    /// Returns the world after transaction `n`, just opened. The stores without transactions were
    /// last emptied after `emptied`.
    pub fn at(seed: u64, n: u64, emptied: u64) -> Self {
        let mut world = Self::new(seed);
        world.advance_to(emptied);
        world.lose(false);
        world.advance_to(n);
        world.lose(true);
        world
    }

    /// Returns the number of the last transaction.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Returns the transaction after which the stores without transactions were last emptied.
    pub fn emptied(&self) -> u64 {
        self.emptied
    }

    /// Returns the database's stores.
    pub fn specs(&self) -> Vec<StoreSpec> {
        self.stores.iter().map(|(store, _)| store.spec()).collect()
    }

    /// Returns the database's stores, all with transactions.
    pub fn transactional_specs(&self) -> Vec<StoreSpec> {
        self.specs()
            .into_iter()
            .map(|spec| StoreSpec {
                transactional: true,
                ..spec
            })
            .collect()
    }

    /// Returns a copy of the world.
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

    /// Advances to transaction `n`, which is not before the current one.
    pub fn advance_to(&mut self, n: u64) {
        while self.n < n {
            // Without a database no step can fail.
            let _ = self.roll_back_at_times(None);
            let (mut rng, _) = self.begin();
            let _ = self.writes(&mut rng, None, None);
            self.offset_changes(&mut rng);
        }
    }

    /// Stops the database: rows in memory are lost, and after an unclean stop also rows that were
    /// written without transactions.
    pub fn lose(&mut self, cleanly: bool) {
        for ((store, offsets), empty) in self.stores.iter_mut().zip(subject::all()) {
            let lost = match store.mode {
                WriteMode::Transactional => false,
                WriteMode::Direct => !cleanly,
                WriteMode::Memory => true,
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

    /// As [`World::lose`], after a stop at any moment; `db` is the database opened after it. A stop
    /// within a reopen, between closing and opening, may have been clean.
    pub fn lose_after_stop(&mut self, db: &Database, progress: &RunProgress) {
        let mut cleanly = self.copy();
        cleanly.lose(true);
        if !progress.open && cleanly.check(db).is_ok() {
            *self = cleanly;
        } else {
            self.lose(false);
        }
    }

    /// Runs the next transaction in the database and in the model. After an error or a panic the
    /// model is unchanged, except for writes to stores without transactions.
    pub fn commit_next(&mut self, db: &Database, note: &mut dyn FnMut(Note)) -> StepResult {
        self.roll_back_at_times(Some(db))?;
        let mut next = self.copy();
        let (mut rng, private) = next.begin();
        let n = next.n;
        if private {
            let mut tx = db.begin()?;
            next.writes(
                &mut rng,
                Some(&mut OpenTransaction { db, tx: &mut tx }),
                None,
            )?;
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
                Some(&mut OpenTransaction {
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

    /// Assumes that the last attempted commit or direct write took effect, even if it failed.
    pub fn go_forward(&mut self) {
        if let Some(attempted) = self.attempted.take() {
            *self = *attempted;
        }
    }

    /// Sometimes runs a transaction and rolls it back. Only writes without transactions remain.
    fn roll_back_at_times(&mut self, db: Option<&Database>) -> StepResult {
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
            Some(&mut OpenTransaction {
                db,
                tx: &mut *db.transaction()?,
            }),
            Some(self),
        )?;
        db.rollback()?;
        Ok(())
    }

    /// Begins the next transaction. Returns its generator, and whether it is a private transaction
    /// ([`Database::begin`]) instead of the database's own ([`Database::transaction`]).
    fn begin(&mut self) -> (Rng, bool) {
        self.n += 1;
        let mut rng = crate::generator(self.seed, self.n);
        let private = rng.u8(..4) == 0;
        if private {
            self.property = Some(self.n.to_be_bytes().to_vec());
        }
        (rng, private)
    }

    /// Runs a transaction's writes. `through` is the world that receives direct writes.
    fn writes(
        &mut self,
        rng: &mut Rng,
        mut open: Option<&mut OpenTransaction<'_>>,
        mut through: Option<&mut Self>,
    ) -> StepResult {
        // Reads and spills of the uncommitted state have a separate generator, so they do not
        // change the writes.
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
            // A fork, because a store's draws may depend on its rows and must not change the draws
            // of the next store.
            store
                .subject
                .write(&mut rng.fork(), self.n, open.as_deref_mut())
                .map_err(|fault| fault.of(&store.spec().name))?;
            if let Some(through) = &mut through {
                let written = open
                    .as_deref_mut()
                    .map_or(Ok(()), |open| open.db.write_through(open.tx));
                if store.mode == WriteMode::Direct {
                    match written {
                        Ok(()) => through.stores[n].0 = store.copy(),
                        // The write may have taken effect.
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
                    .map_err(|fault| fault.of(&store.spec().name))?;
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

    /// Returns the number of the last transaction in a database.
    pub fn transaction_of(db: &Database) -> Result<u64, StepError> {
        let store = subject::all()
            .into_iter()
            .find(|store| store.mode == WriteMode::Transactional);
        let offset = store
            .map(|store| db.store_offset(&store.spec().name, &counter()))
            .transpose()?
            .flatten();
        Ok(offset.map_or(0, |offset| offset.0 as u64))
    }

    /// Compares all committed data: stores, offsets, the property.
    pub fn check(&self, db: &Database) -> StepResult {
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
        // The database's offsets: the minimum of the stores' offsets, or none if a store has lost
        // its data.
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

    /// Compares all rows of a view of the database.
    pub fn check_view(&self, db: &Database, view: &mut Transaction) -> StepResult {
        self.stores.iter().try_for_each(|(store, _)| {
            store
                .subject
                .check(&mut OpenTransaction { db, tx: view })
                .map_err(|fault| fault.of(&store.spec().name))
        })
    }
}
