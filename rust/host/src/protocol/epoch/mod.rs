//! The rules of an epoch: how a session opens and stages it, how it is decided, and which stream
//! time an idle partition follows.

mod counts;
mod decision;
mod epoch_decision;
mod heartbeats;
mod idle;
mod open;
mod stage;

pub use counts::Counts;
pub use decision::{Decision, decide, highest_whole, older_whole};
pub use epoch_decision::{EpochDecision, PartitionDecision};
pub use heartbeats::{Heartbeats, sources_digest};
pub use idle::{BatchTimes, IdleTimes, PartitionTimes, followed_time, idle_since};
pub use open::{OpenFacts, OpenStep, PlannedBatch, open_step};
pub use stage::{
    HeadSummary, ReplayStep, StageStep, decided_step, may_stage, replay_step, reproduces,
    stage_step,
};
