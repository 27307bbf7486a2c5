//! A task at work: transaction after transaction, and what happens to a task between them.

use crate::world::{Fault, Outcome, World};
use fastrand::Rng;
use holdfast_core::{Durability, Task, TaskOptions, Transaction};
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
}

/// A task, its world, and the notes that it leaves.
pub struct Runner<'a> {
    /// What the task must hold.
    pub world: World,
    task: Arc<Task>,
    path: PathBuf,
    options: TaskOptions,
    rng: Rng,
    /// Views taken earlier, with what they must still hold.
    views: Vec<(Transaction, World)>,
    note: &'a mut dyn FnMut(Note),
}

/// Options that make a small workload do what a large one does: files are written and merged all the time.
pub fn options(durability: Durability) -> TaskOptions {
    let small = [("write_buffer_size", "65536"), ("target_file_size_base", "65536"), ("level0_file_num_compaction_trigger", "2")];
    let rocksdb_options = small.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TaskOptions { durability, rocksdb_options, ..TaskOptions::default() }
}

impl<'a> Runner<'a> {
    /// Opens the task; `world` is what it must hold already. `seed` draws what happens between transactions.
    pub fn open(path: &Path, options: TaskOptions, world: World, seed: u64, note: &'a mut dyn FnMut(Note)) -> Result<Self, Fault> {
        let task = Task::open(path, &world.specs(), options.clone())?;
        let rng = crate::generator(seed, u64::MAX);
        Ok(Self { world, task, path: path.to_owned(), options, rng, views: Vec::new(), note })
    }

    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// One transaction, and now and then something between it and the one before.
    pub fn step(&mut self) -> Outcome {
        let drawn = self.rng.u8(..40);
        self.upkeep(drawn)?;
        self.world.commit_next(&self.task, self.note)?;
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
                self.task.flush(true)?;
                (self.note)(Note::Durable(n));
            }
            2 => {
                (self.note)(Note::Upkeep("flush in the background"));
                self.task.flush(false)?;
            }
            3 => {
                (self.note)(Note::Upkeep("compaction"));
                let specs = self.world.specs();
                self.task.compact(&specs[self.rng.usize(..specs.len())].name)?;
            }
            4 => {
                (self.note)(Note::Upkeep("reopen"));
                self.views.clear();
                self.task.close()?;
                (self.note)(Note::Durable(n));
                self.task = Task::open(&self.path, &self.world.specs(), self.options.clone())?;
                self.world.check(&self.task)?;
            }
            // A copy is made past the simulated disk.
            5 if self.options.environment.is_none() => self.checkpoint()?,
            6 | 7 => self.views.push((self.task.begin()?, self.world.copy())),
            8 | 9 => {
                for (mut view, world) in self.views.drain(..) {
                    world.check_view(&self.task, &mut view)?;
                }
            }
            10 => self.world.check(&self.task)?,
            _ => {}
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Outcome {
        (self.note)(Note::Upkeep("checkpoint"));
        let copy = self.path.with_extension("checkpoint");
        Task::destroy(&copy)?;
        self.task.checkpoint(&copy)?;
        let task = Task::open(&copy, &self.world.specs(), self.options.clone())?;
        self.world.check(&task)?;
        task.close()?;
        drop(task);
        Task::destroy(&copy)?;
        Ok(())
    }
}
