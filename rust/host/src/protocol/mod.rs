//! The protocol of runs, epochs and owners, as pure functions without I/O.
//!
//! Each function maps what was read (claims, object names, Spark's logs) to the next step, so a
//! test can check every interleaving of runs, attempts and crashes (`tests/protocol_model/`).
//! [`crate::root`] reads and writes, in the order that these rules require. The rules are described
//! in `docs/design/epochs.md`.
//!
//! The life of an epoch: a run claims its number ([`next_claim`]). A session opens ([`open_step`])
//! once the epoch before is final: the first host that finds Spark's commit of that epoch decides
//! it ([`decide`]) and records the decision ([`EpochDecision`]). The session stages its object
//! ([`older_whole`], [`replay_step`], [`decided_step`], [`may_stage`], [`stage_step`]). It reads
//! the claims again ([`fence`]) before it acknowledges the task to Spark.
//!
//! [`owner_step`] chooses the host of a partition's sessions. It affects speed, never the content
//! of an epoch.
//!
//! The times of an epoch: [`idle_since`] and [`followed_time`] say how far the stream time of a
//! partition without rows advances.

mod balance;
mod claim;
mod digest;
mod epoch;
mod isolation_level;
mod number;
mod object;
mod offsets_difference;
mod operator;
mod owner;
mod violation;
mod violation_advice;

pub use balance::{needs_recount, relieves};
pub use claim::{Claim, ClaimStep, Fenced, fence, next_claim};
pub use digest::Digest;
pub use epoch::{
    BatchTimes, Counts, Decision, EpochDecision, HeadSummary, Heartbeats, IdleTimes, OpenFacts,
    OpenStep, PartitionDecision, PartitionTimes, PlannedBatch, ReplayStep, StageStep, decide,
    decided_step, followed_time, highest_whole, idle_since, may_stage, older_whole, open_step,
    replay_step, reproduces, sources_digest, stage_step,
};
pub use isolation_level::IsolationLevel;
pub use number::{Attempt, Epoch, Generation, PartitionId, RunNumber};
pub use object::ObjectId;
pub use offsets_difference::OffsetsDifference;
pub use operator::{OperatorName, is_name_part};
pub use owner::{
    HostId, KeyFingerprint, NEWEST_OWNERS, Owner, OwnerStep, TcpEndpoint, Term, owner_step,
};
pub use violation::Violation;
