//! A state of the model: Spark's logs, the root's log, drivers, and the sink.

use holdfast_host::protocol::{
    Digest, Epoch, EpochDecision, HeadSummary, ObjectId, OperatorName, PartitionDecision,
    PartitionId, RunNumber,
};

/// The number of epochs. The last one is never committed.
pub(crate) const EPOCHS: usize = 3;
pub(crate) const DRIVERS: usize = 2;
pub(crate) const MAX_RUNS: u64 = 3;

/// A rule that a test switches off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The plan's batch timestamp must be the one in the offsets file.
    PlannedAt,
    /// Spark's offsets must be those of the objects when an epoch is decided, and those that the
    /// decision names when a session of the next epoch opens.
    OffsetsOfDecidedEpochs,
    /// A session compares its results with the decision of an epoch whose commit was lost.
    DecisionStands,
    /// A decision's name has the run of the newest rewind.
    RecordAfterRewind,
    /// Rewind marks are read again after the put of a record.
    MarksAfterPut,
    /// If later epochs have objects, an epoch without objects was lost.
    LaterEpochsNeedThisOne,
    /// An older whole run must be reproduced.
    Reproduction,
    /// Only the newest run may continue.
    Fence,
    /// Spark's commit log is read before a put. If it holds the epoch, only an object that equals
    /// the decided one may be put.
    CommitBeforePut,
}

impl Rule {
    pub(crate) const ALL: [Self; 9] = [
        Self::PlannedAt,
        Self::OffsetsOfDecidedEpochs,
        Self::DecisionStands,
        Self::RecordAfterRewind,
        Self::MarksAfterPut,
        Self::LaterEpochsNeedThisOne,
        Self::Reproduction,
        Self::Fence,
        Self::CommitBeforePut,
    ];
}

/// Offsets and results have two variants; 0 is none.
pub(crate) type Variant = u8;

/// A staged object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Object {
    pub(crate) run: u64,
    /// The offsets that the driver planned, from which the rows come.
    pub(crate) planned: Variant,
    /// The offsets file as the session read it.
    pub(crate) file: Variant,
    pub(crate) result: Variant,
    pub(crate) base: Digest,
    /// Spark had committed the epoch before the session read the commit log.
    pub(crate) late: bool,
}

impl Object {
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&[self.planned, self.result])
    }

    pub(crate) fn summary(&self) -> HeadSummary {
        HeadSummary {
            base: self.base,
            digest: self.digest(),
            input: Digest::ZERO,
            input_rows: 1,
            offsets: offsets_digest(self.file),
        }
    }

    pub(crate) fn id(&self) -> ObjectId {
        ObjectId {
            operator: operator(),
            partition: PartitionId(0),
            run: RunNumber(self.run),
        }
    }
}

/// A recorded decision, in the parts that differ in the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) rewind: u64,
    /// None if the epoch was skipped.
    pub(crate) run: Option<u64>,
    pub(crate) offsets: Variant,
    pub(crate) base: Digest,
    pub(crate) digest: Digest,
    /// The offsets from which the decided rows come; 0 if the epoch was skipped.
    pub(crate) planned: Variant,
    /// Whether the decided object is late ([`Object::late`]).
    pub(crate) late: bool,
}

impl Record {
    pub(crate) fn chain(&self) -> Digest {
        self.base.chain(self.digest)
    }

    /// As the protocol's decision.
    pub(crate) fn decision(&self, epoch: usize) -> EpochDecision {
        let partition = PartitionDecision {
            base: self.base,
            digest: self.digest,
            ..PartitionDecision::default()
        };
        EpochDecision {
            epoch: Epoch(epoch as i64),
            rewind: RunNumber(self.rewind),
            run: self.run.map(RunNumber),
            offsets: offsets_digest(self.offsets),
            sources_idle_since: None,
            operators: [(operator(), vec![partition])].into(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Dead,
    /// Has planned its epoch: it has read the epoch's offsets, or written them.
    Wrote,
    /// Has claimed its run.
    Planned,
    /// A session is open, on the state with this chain. It read this offsets file.
    Open(Digest, Variant),
    /// Staged this; none if no operator ran.
    Staged(Option<Digest>),
    Delivered,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Driver {
    pub(crate) phase: Phase,
    pub(crate) run: u64,
    pub(crate) epoch: usize,
    pub(crate) planned: Variant,
}

/// One epoch in Spark's logs, in the root and in the sink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct EpochState {
    pub(crate) offsets: Variant,
    pub(crate) committed: bool,
    pub(crate) objects: Vec<Object>,
    pub(crate) records: Vec<Record>,
    /// The folder was lost, with what it had.
    pub(crate) lost: bool,
    /// What the sink was given.
    pub(crate) given: Vec<Digest>,
    /// What a host's state held for the epoch; none if no host has used a decision of the epoch.
    pub(crate) held: Option<Digest>,
}

/// What went wrong outside of the protocol, at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A driver wrote its offsets over those of another.
    OffsetsOverwritten,
    /// A loss of power took Spark's last commit.
    CommitLost,
    /// The log folder of an epoch was lost.
    FolderLost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) runs: u64,
    pub(crate) drivers: [Driver; DRIVERS],
    pub(crate) epochs: [EpochState; EPOCHS],
    /// The run of the rewind, and the first epoch that it took back.
    pub(crate) rewind: Option<(u64, usize)>,
    /// What a host has decided and not recorded: epoch, record.
    pub(crate) listed: Option<(usize, Record)>,
    pub(crate) fault: Option<Fault>,
}

impl State {
    /// The same state with the drivers in one order, and without data of dead drivers.
    pub(crate) fn normalized(mut self) -> Self {
        for driver in &mut self.drivers {
            if driver.phase == Phase::Dead {
                *driver = Driver::default();
            }
        }
        self.drivers.sort_unstable();
        self
    }
}

pub(crate) fn operator() -> OperatorName {
    OperatorName::new("rates").expect("a name")
}

pub(crate) fn offsets_digest(variant: Variant) -> Digest {
    Digest::of(&[b'o', variant])
}
