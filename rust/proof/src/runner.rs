//! A database at work: transaction after transaction, and what happens to a database between them.

use crate::world::{Fault, Outcome, World};
use fastrand::Rng;
use holdfast_core::{
    Database, DatabaseOptions, Durability, ProcessingGuarantee, StoreSpec, Transaction,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the work tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Commit n begins.
    Attempting(u64),
    /// Commit n has returned.
    Done(u64),
    /// From here on no crash may lose transaction n.
    Durable(u64),
    /// Something else than a transaction begins.
    Upkeep(&'static str),
    /// The database is about to be closed, cleanly.
    Closing,
    /// The database is open, and a stop from here on is not a clean one.
    Opened,
}

/// How far a run came before it was stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// The last commit that was begun.
    pub attempting: u64,
    /// The last commit that nothing may lose.
    pub durable: u64,
    /// The database was open for certain.
    pub open: bool,
}

impl Reached {
    /// A run that begins behind transaction `n`.
    pub fn start(n: u64) -> Self {
        Self {
            attempting: n,
            durable: n,
            open: false,
        }
    }

    /// What a note says.
    pub fn note(&mut self, note: Note) {
        match note {
            Note::Attempting(n) => self.attempting = n,
            Note::Durable(n) => self.durable = n,
            Note::Opened => self.open = true,
            Note::Closing => self.open = false,
            Note::Done(_) | Note::Upkeep(_) => {}
        }
    }

    /// What the same note says as a line, from another process.
    pub fn note_line(&mut self, line: &str) {
        let (what, n) = line.split_once(' ').unwrap_or((line, "0"));
        let n = n.parse().unwrap_or_default();
        match what {
            "attempting" => self.note(Note::Attempting(n)),
            "durable" => self.note(Note::Durable(n)),
            "opened" => self.note(Note::Opened),
            "closing" => self.note(Note::Closing),
            _ => {}
        }
    }
}

impl Note {
    /// The note as a line for another process.
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

/// A database, its world, and the notes that it leaves.
pub struct Runner<'a> {
    /// What the database must hold.
    pub world: World,
    db: Arc<Database>,
    path: PathBuf,
    options: DatabaseOptions,
    rng: Rng,
    /// Views taken earlier, with what they must still hold.
    views: Vec<(Transaction, World)>,
    note: &'a mut dyn FnMut(Note),
}

/// Memory of a transaction, in bytes, at which it spills: few do.
const SPILLS_AT: i64 = 24 << 10;

/// Options that make a small workload do what a large one does: files are written and merged all
/// the time.
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
    /// Opens the database; `world` is what it must hold already. `seed` draws what happens between
    /// transactions.
    pub fn open(
        path: &Path,
        options: DatabaseOptions,
        world: World,
        seed: u64,
        note: &'a mut dyn FnMut(Note),
    ) -> Result<Self, Fault> {
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
            note,
        })
    }

    /// The database.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// One transaction, and now and then something between it and the one before.
    pub fn step(&mut self) -> Outcome {
        let drawn = self.rng.u8(..40);
        self.upkeep(drawn)?;
        self.world.commit_next(&self.db, self.note)?;
        if self.options.durability == Durability::Sync {
            (self.note)(Note::Durable(self.world.n()));
        }
        Ok(())
    }

    fn upkeep(&mut self, drawn: u8) -> Outcome {
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
                // A store whose transactions are switched on and off keeps its rows (T20).
                if self.rng.bool() {
                    self.reopen(&self.world.transactional_specs())?;
                }
                self.reopen(&self.world.specs())?;
            }
            // A copy is made past the simulated disk.
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

    fn reopen(&mut self, specs: &[StoreSpec]) -> Outcome {
        (self.note)(Note::Closing);
        self.db.close()?;
        (self.note)(Note::Durable(self.world.n()));
        self.world.lose(true);
        // Text files do not lie on the simulated disk; and a close that fails between two openings
        // would leave the wrong stores.
        let for_long = specs.iter().any(|spec| !spec.transactional);
        self.options.older_layout =
            for_long && self.options.environment.is_none() && self.rng.u8(..3) == 0;
        self.db = Database::open(&self.path, specs, self.options.clone())?;
        if specs.iter().any(|spec| !spec.transactional) {
            (self.note)(Note::Opened);
        }
        self.world.check(&self.db)
    }

    fn checkpoint(&mut self) -> Outcome {
        (self.note)(Note::Upkeep("checkpoint"));
        let copy = self.path.with_extension("checkpoint");
        Database::destroy(&copy)?;
        self.db.checkpoint(&copy)?;
        let db = Database::open(&copy, &self.world.specs(), self.options.clone())?;
        // The copy of an open database is as one that was not closed.
        let mut world = self.world.copy();
        world.lose(self.options.guarantee == ProcessingGuarantee::AtLeastOnce);
        world.check(&db)?;
        db.close()?;
        drop(db);
        Database::destroy(&copy)?;
        Ok(())
    }
}
