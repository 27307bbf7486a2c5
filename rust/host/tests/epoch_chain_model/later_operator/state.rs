//! A state of the model: Spark's commits, the root's log and the operator's file, drivers, sink.

use holdfast_host::protocol::{
    self, Decision, Digest, HeadSummary, ObjectId, OperatorName, PartitionId, RunNumber,
};

pub(super) const EPOCHS: usize = 3;
pub(super) const MAX_RUNS: u64 = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Object {
    pub(super) run: u64,
    /// The state before the epoch, if it is an object of `later`; none for `rates`.
    pub(super) later: Option<Digest>,
}

impl Object {
    pub(super) fn id(&self) -> ObjectId {
        ObjectId {
            operator: name(if self.later.is_some() {
                "later"
            } else {
                "rates"
            }),
            partition: PartitionId(0),
            run: RunNumber(self.run),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Dead,
    Planned,
    /// Has staged `rates`.
    Staged,
    /// A session of `later` has found an operator's file that it replaces.
    Replaces,
    /// It has checked the claims, and removes the file.
    Removes,
    /// It puts the file if it is absent.
    Puts,
    /// It found this first epoch in the file, or put it.
    Registered(usize),
    /// It has opened on the state with this chain.
    Open(Digest),
    /// The function has returned. It has this result of `later`.
    Returned(Option<Digest>),
    Delivered,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Driver {
    pub(super) phase: Phase,
    pub(super) run: u64,
    pub(super) epoch: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct EpochState {
    pub(super) committed: bool,
    pub(super) objects: Vec<Object>,
    /// The recorded decision: the state of `later` before the epoch, if the decision names it.
    pub(super) record: Option<Option<Digest>>,
    /// What the sink was given of `later`.
    pub(super) given: Option<Digest>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) runs: u64,
    pub(super) driver: Driver,
    /// The driver that ran before the rewind.
    pub(super) stale: Driver,
    pub(super) epochs: [EpochState; EPOCHS],
    /// The first epoch in the operator's file.
    pub(super) first: Option<usize>,
    /// The run of the rewind, and the first epoch that it took back.
    pub(super) rewind: Option<(u64, usize)>,
}

pub(super) fn name(operator: &str) -> OperatorName {
    OperatorName::new(operator).expect("a name")
}

/// The result of `later` in an epoch.
pub(super) fn result(epoch: usize) -> Digest {
    Digest::of(&[epoch as u8])
}

impl State {
    pub(super) fn in_force(&self, epoch: usize) -> Vec<&Object> {
        let is_in_force = |object: &&Object| {
            let taken_back = |(run, from)| object.run < run && epoch >= from;
            !self.rewind.is_some_and(taken_back)
        };
        self.epochs[epoch]
            .objects
            .iter()
            .filter(is_in_force)
            .collect()
    }

    pub(super) fn has_later(&self, epoch: usize) -> bool {
        self.in_force(epoch)
            .iter()
            .any(|object| object.later.is_some())
    }

    /// As the catalog of operators decides whether `later` took part from `first` on.
    pub(super) fn took_part(&self, first: usize, epoch: usize) -> bool {
        let has_later_since = |epoch: usize| (epoch..EPOCHS).any(|epoch| self.has_later(epoch));
        if first >= epoch {
            return self.has_later(first) || has_later_since(epoch + 1);
        }
        self.whole_has_later(first).unwrap_or(true) || has_later_since(first + 1)
    }

    /// Whether the catalog of operators finds that `later` took part in an epoch.
    pub(super) fn is_of(&self, epoch: usize) -> bool {
        self.whole_has_later(epoch)
            .unwrap_or_else(|| self.has_later(epoch))
    }

    /// Whether the highest whole run of an epoch has an object of `later`; none without such a run.
    fn whole_has_later(&self, epoch: usize) -> Option<bool> {
        let objects = self.in_force(epoch);
        let ids: Vec<ObjectId> = objects.iter().map(|object| object.id()).collect();
        let whole = protocol::highest_whole(&ids, 1).whole_run();
        whole.map(|run| {
            objects
                .iter()
                .any(|object| object.run == run.0 && object.later.is_some())
        })
    }

    /// Decides a committed epoch; none for an error.
    pub(super) fn decide(&mut self, epoch: usize) -> Option<Option<Digest>> {
        if let Some(record) = self.epochs[epoch].record {
            return Some(record);
        }
        let objects = self.in_force(epoch);
        let ids: Vec<ObjectId> = objects.iter().map(|object| object.id()).collect();
        let find = |id: &ObjectId| objects.iter().find(|object| object.id() == *id);
        let decision = protocol::decide(&ids, 1, |id| {
            Ok::<_, ()>(find(id).map(|object| HeadSummary {
                base: object.later.unwrap_or(Digest::ZERO),
                digest: result(epoch),
                input: Digest::ZERO,
                input_rows: 1,
                offsets: Digest::ZERO,
            }))
        });
        let Ok(Decision::Run(run)) = decision else {
            return None;
        };
        let of_run = objects.iter().filter(|object| object.run == run.0);
        let record = of_run.filter_map(|object| object.later).next();
        self.epochs[epoch].record = Some(record);
        Some(record)
    }

    pub(super) fn is_fenced(&self, driver: &Driver) -> bool {
        driver.run < self.runs
    }

    /// Puts an object; returns whether its task may continue.
    pub(super) fn stage(&mut self, driver: &Driver, object: Object) -> bool {
        let epoch = driver.epoch;
        // Spark's commit is read before the put and after it.
        if self.epochs[epoch].committed {
            return false;
        }
        let objects = &mut self.epochs[epoch].objects;
        if !objects.iter().any(|other| other.id() == object.id()) {
            objects.push(object);
        }
        !self.is_fenced(driver)
    }
}
