//! Runs transactions on a database, with flushes, compactions and reopens between them.

use crate::progress::Note;
use crate::step_error::{StepError, StepResult};
use crate::world::World;
use fastrand::Rng;
use holdfast_core::{
    Database, DatabaseOptions, Durability, ProcessingGuarantee, StoreSpec, Transaction,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Note {
    /// Returns the note as a line for another process.
    pub fn line(self) -> String {
        match self {
            Self::Attempting(n) => format!("attempting {n}\n"),
            Self::Done(n) => format!("done {n}\n"),
            Self::Durable(n) => format!("durable {n}\n"),
            Self::Upkeep(what) => format!("upkeep {what}\n"),
            Self::Closing => "closing\n".into(),
            Self::Opened => "opened\n".into(),
        }
    }
}

/// A database, its world, and the receiver of its notes.
pub struct Runner<'a> {
    /// What the database must hold.
    pub world: World,
    db: Arc<Database>,
    path: PathBuf,
    options: DatabaseOptions,
    rng: Rng,
    /// Earlier views, with the world that each must still show.
    views: Vec<(Transaction, World)>,
    /// Whether all stores have transactions, as between the two parts of a reopen.
    all_transactional: bool,
    note: &'a mut dyn FnMut(Note),
}

/// Memory of a transaction, in bytes, above which it spills; few transactions do.
const SPILLS_AT: i64 = 24 << 10;

/// Options with which a small workload behaves like a large one: files are written and compacted
/// constantly.
pub fn options(durability: Durability) -> DatabaseOptions {
    let small = [
        ("write_buffer_size", "65536"),
        ("target_file_size_base", "65536"),
        ("level0_file_num_compaction_trigger", "2"),
    ];
    let rocksdb_options = small
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    DatabaseOptions {
        durability,
        rocksdb_options,
        uncommitted_max_bytes: SPILLS_AT,
        ..DatabaseOptions::default()
    }
}

impl<'a> Runner<'a> {
    /// Opens the database, which must hold `world`. `seed` draws the operations between
    /// transactions.
    pub fn open(
        path: &Path,
        options: DatabaseOptions,
        world: World,
        seed: u64,
        note: &'a mut dyn FnMut(Note),
    ) -> Result<Self, StepError> {
        let db = Database::open(path, &world.specs(), options.clone())?;
        note(Note::Opened);
        let rng = crate::generator(seed, u64::MAX);
        Ok(Self {
            world,
            db,
            path: path.to_owned(),
            options,
            rng,
            views: Vec::new(),
            all_transactional: false,
            note,
        })
    }

    /// Returns the database.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// Whether the stores have the modes of their models. A reopen that fails may leave all of them
    /// with transactions; a rollback then takes back rows that the models keep.
    pub fn has_modes_of_models(&self) -> bool {
        !self.all_transactional
    }

    /// Runs one transaction, sometimes after another operation.
    pub fn step(&mut self) -> StepResult {
        let drawn = self.rng.u8(..40);
        self.upkeep(drawn)?;
        self.commit()
    }

    /// Runs one transaction.
    pub fn commit(&mut self) -> StepResult {
        self.world.commit_next(&self.db, self.note)?;
        if self.options.durability == Durability::Sync {
            (self.note)(Note::Durable(self.world.n()));
        }
        Ok(())
    }

    fn upkeep(&mut self, drawn: u8) -> StepResult {
        let n = self.world.n();
        match drawn {
            0 | 1 => {
                (self.note)(Note::Upkeep("flush"));
                self.db.flush(true)?;
                (self.note)(Note::Durable(n));
            }
            2 => {
                (self.note)(Note::Upkeep("flush in the background"));
                self.db.flush(false)?;
            }
            3 => {
                (self.note)(Note::Upkeep("compaction"));
                let specs = self.world.specs();
                self.db
                    .compact(&specs[self.rng.usize(..specs.len())].name)?;
            }
            4 => {
                (self.note)(Note::Upkeep("reopen"));
                self.views.clear();
                // A store retains its rows when its transactions are switched on or off.
                if self.rng.bool() {
                    self.reopen(&self.world.transactional_specs())?;
                }
                self.reopen(&self.world.specs())?;
            }
            // A checkpoint bypasses the simulated disk.
            5 if self.options.environment.is_none() => self.checkpoint()?,
            6 | 7 => self.views.push((self.db.begin()?, self.world.copy())),
            8 | 9 => {
                for (mut view, world) in self.views.drain(..) {
                    world.check_view(&self.db, &mut view)?;
                }
            }
            10 => self.world.check(&self.db)?,
            _ => {}
        }
        Ok(())
    }

    fn reopen(&mut self, specs: &[StoreSpec]) -> StepResult {
        (self.note)(Note::Closing);
        self.db.close()?;
        (self.note)(Note::Durable(self.world.n()));
        self.world.lose(true);
        self.db = Database::open(&self.path, specs, self.options.clone())?;
        self.all_transactional = specs.iter().all(|spec| spec.transactional);
        if !self.all_transactional {
            (self.note)(Note::Opened);
        }
        self.world.check(&self.db)
    }

    fn checkpoint(&mut self) -> StepResult {
        (self.note)(Note::Upkeep("checkpoint"));
        let copy = self.path.with_extension("checkpoint");
        Database::destroy(&copy)?;
        self.db.checkpoint(&copy)?;
        let db = Database::open(&copy, &self.world.specs(), self.options.clone())?;
        // The checkpoint of an open database is like a database that was not closed.
        let mut world = self.world.copy();
        world.lose(self.options.guarantee == ProcessingGuarantee::AtLeastOnce);
        world.check(&db)?;
        db.close()?;
        drop(db);
        Database::destroy(&copy)?;
        Ok(())
    }
}
