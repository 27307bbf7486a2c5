//! A state of the model: claimed runs, objects, drivers, and what the sink was given.

use holdfast_core::ProcessingGuarantee;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const RUNS: usize = 3;
/// A slot is one partition of one operator.
pub(crate) const SLOTS: usize = 4;
pub(crate) const TWINS: usize = 2;

/// The rule that a world breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Nothing,
    /// The runs are not read again after a put.
    NoReadAfterPut,
    /// A run lists before it claims, and its attempts do not list again.
    ListBeforeClaim,
    /// A run lists before it claims, and its attempts list again only if the log had objects.
    FirstListingBeforeClaim,
    /// An older whole run is not reproduced.
    NoReproduction,
    /// The lowest whole run decides.
    LowestWholeDecides,
    /// The objects of newer runs are ignored.
    NoNewerObjects,
    /// An object is adopted without comparing it.
    AdoptUnseen,
    /// A run that lacks an operator counts as whole.
    ForgetsOperators,
    /// The record is overwritten.
    RecordIsOverwritten,
    /// Spark's commit is not read after a put.
    NoCommitCheck,
    /// Spark's commit is not read before a put.
    NoCommitCheckBeforePut,
    /// An attempt publishes its own far-future rows, also if it adopts.
    PublishesOwn,
    /// The heads are not listed again after the far-future rows are published.
    NoSecondListing,
    /// An attempt that has no far-future rows never removes those of an older run.
    LeavesOlderRows,
}

/// The drivers, operators and sink that the model explores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) drivers: usize,
    pub(crate) operators: usize,
    pub(crate) partitions: usize,
    /// How many attempts at a task may run at the same time.
    pub(crate) twins: usize,
    pub(crate) repeatable: bool,
    pub(crate) guarantee: ProcessingGuarantee,
    pub(crate) file_sink: bool,
    /// Whether the second operator's job runs in a thread that `foreachBatch` does not join.
    pub(crate) outlives: bool,
    /// Whether the result 1 has far-future rows, which are published. The result 2 has none.
    pub(crate) publishes: bool,
    /// What `foreachBatch` may do: for each job, whether it evaluates all partitions.
    pub(crate) plans: &'static [&'static [bool]],
    pub(crate) broken: Broken,
}

/// A result, identified by its digest; 0 is "none".
pub(crate) type Content = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Session {
    /// Not begun, or failed: another attempt may start.
    #[default]
    Idle,
    /// Has listed, and will stage this: its own result, or a copy of an older whole run's. Spark
    /// had not committed the epoch; it may do so at any time before the put.
    Listed(Content),
    /// The same, but Spark has committed the epoch, and the session has not read that yet.
    ListedLate(Content),
    /// Its object exists, or it adopts that of another attempt.
    Put(Content),
    /// As `Put`, if far-future rows are published and another attempt wrote the object.
    Adopted(Content),
    /// Its object is valid. The newest object that it has found is of this run.
    Publishing(Content, u8),
    /// It has published the far-future rows of this run's object.
    Published(Content, u8),
    Acknowledged(Content),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    #[default]
    NotStarted,
    /// Has read this many claims.
    Claiming(u8),
    Running(u8),
    /// The sink has the job's output.
    Delivered(u8),
    Committed,
    Dead,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Driver {
    pub(crate) phase: Phase,
    pub(crate) plan: u8,
    /// Its run number; 0 before the claim.
    pub(crate) run: u8,
    pub(crate) sessions: [[Session; TWINS]; SLOTS],
    /// Results of partial jobs, as bits: they count if this driver commits.
    pub(crate) partial: [u8; SLOTS],
    /// With `ListBeforeClaim`: what it listed before the claim.
    pub(crate) early: [Content; SLOTS],
    /// Whether the log had the epoch at its first listing. If not, its attempts do not list.
    pub(crate) had: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Which driver has claimed which number.
    pub(crate) claims: [u8; RUNS],
    pub(crate) claimed: u8,
    pub(crate) objects: [[Content; SLOTS]; RUNS],
    /// By slot, the runs (as bits) whose object is of a session that began to stage after Spark's
    /// commit.
    pub(crate) late: [u8; SLOTS],
    pub(crate) drivers: [Driver; RUNS],
    pub(crate) sink_has_epoch: bool,
    pub(crate) committed: bool,
    /// The sink has the output of a job over all partitions.
    pub(crate) whole: bool,
    /// What whole jobs gave to the sink, by slot, as bits of contents.
    pub(crate) given: [u8; SLOTS],
    /// The run of the driver that wrote Spark's commit log.
    pub(crate) committer: u8,
    /// What that driver's partial jobs gave to the sink.
    pub(crate) given_in_part: [u8; SLOTS],
    /// What a host found by a listing, and has not recorded yet.
    pub(crate) listed: Option<[Content; SLOTS]>,
    /// The recorded decision.
    pub(crate) recorded: Option<[Content; SLOTS]>,
    /// Whether the file of far-future rows exists, by slot.
    pub(crate) published: [bool; SLOTS],
}

/// The bytes of a state.
const CODE: usize = 10 + 4 * RUNS + SLOTS * (6 + 5 * RUNS);

impl State {
    /// Whether the log has the epoch.
    pub(crate) fn has_objects(&self) -> bool {
        self.objects != [[0; SLOTS]; RUNS]
    }

    /// Identifies a state up to symmetry: the order of equivalent slots, the order of drivers, and
    /// the names of the two results if they are equivalent.
    pub(crate) fn fingerprint(&self, orders: &[[usize; SLOTS]], publishes: bool) -> u64 {
        let mut drivers = self.drivers;
        drivers.sort_unstable_by_key(|driver| {
            (
                if driver.run == 0 { u8::MAX } else { driver.run },
                driver.phase.code(),
            )
        });
        let names: &[_] = match publishes {
            true => &[[0, 1, 2, 3]],
            false => &[[0, 1, 2, 3], [0, 2, 1, 3]],
        };
        let each = orders
            .iter()
            .flat_map(|order| names.iter().map(move |names| (order, names)));
        let all = each.map(|(order, names)| self.code(&drivers, order, names));
        all.min().map_or(0, |code| xxh3_64(&code))
    }

    fn code(
        &self,
        drivers: &[Driver; RUNS],
        order: &[usize; SLOTS],
        names: &[u8; 4],
    ) -> [u8; CODE] {
        let mut code = [0; CODE];
        let mut bytes = code.iter_mut();
        let mut push = |byte: u8| bytes.next().map_or((), |place| *place = byte);
        let flags = [
            self.sink_has_epoch,
            self.committed,
            self.whole,
            self.listed.is_some(),
            self.recorded.is_some(),
        ]
        .map(u8::from);
        flags
            .into_iter()
            .chain([self.claimed, self.committer])
            .for_each(&mut push);
        drivers.iter().for_each(|driver| {
            [
                driver.phase.code(),
                driver.plan,
                driver.run,
                driver.had.into(),
            ]
            .into_iter()
            .for_each(&mut push)
        });
        let name = |content: u8| names[usize::from(content)];
        for &slot in order {
            push(self.late[slot]);
            push(self.published[slot].into());
            push(name(self.given[slot]));
            push(name(self.given_in_part[slot]));
            push(name(self.listed.map_or(0, |listed| listed[slot])));
            push(name(self.recorded.map_or(0, |recorded| recorded[slot])));
            (0..RUNS).for_each(|run| push(name(self.objects[run][slot])));
            for driver in drivers {
                driver.sessions[slot]
                    .iter()
                    .for_each(|session| push(session.code(names)));
                push(name(driver.partial[slot]));
                push(name(driver.early[slot]));
            }
        }
        code
    }
}

impl Phase {
    fn code(self) -> u8 {
        match self {
            Self::NotStarted => 0,
            Self::Committed => 1,
            Self::Dead => 2,
            Self::Claiming(seen) => 0x10 | seen,
            Self::Running(job) => 0x20 | job,
            Self::Delivered(job) => 0x30 | job,
        }
    }
}

impl Session {
    fn code(self, names: &[u8; 4]) -> u8 {
        match self {
            Self::Idle => 0,
            Self::Listed(content) => 0x10 | names[usize::from(content)],
            Self::ListedLate(content) => 0x40 | names[usize::from(content)],
            Self::Put(content) => 0x20 | names[usize::from(content)],
            Self::Acknowledged(content) => 0x30 | names[usize::from(content)],
            Self::Adopted(content) => 0x50 | names[usize::from(content)],
            Self::Publishing(content, run) => 0x80 | names[usize::from(content)] << 2 | run,
            Self::Published(content, run) => 0xc0 | names[usize::from(content)] << 2 | run,
        }
    }

    /// Whether its object is valid, and it may still publish.
    pub(crate) fn is_publishing(self) -> bool {
        matches!(self, Self::Publishing(..) | Self::Published(..))
    }
}

/// Whether a result has far-future rows.
pub(crate) fn has_rows(content: Content) -> bool {
    content == 1
}
