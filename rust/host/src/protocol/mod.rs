//! Who decides an epoch, who is fenced, and what is an error: `spark.md` section 3 as pure
//! functions, without any I/O.
//!
//! Everything here is a function from what was read (claims, object names, Spark's logs) to the
//! next step, so that a test can walk through every interleaving of runs, attempts and crashes
//! (`tests/protocol_model/`). [`crate::root`] does the reading and writing, in the order that these
//! rules need.
//!
//! An epoch's life: a run claims its number ([`next_claim`]); a session opens ([`open_step`]) once
//! the epoch before is final ([`decide`], [`doubts`]); it stages its object ([`older_whole`],
//! [`replay_step`], [`stage_step`]) and reads the claims again ([`fence`]) before it says so to
//! Spark.
//!
//! Beside it, which host a partition's sessions go to ([`owner_step`]): a matter of time only,
//! never of what an epoch holds.

mod claim;
mod decision;
mod digest;
mod number;
mod object;
mod open;
mod operator;
mod owner;
mod stage;
mod violation;

pub use claim::{Claim, ClaimStep, Fenced, fence, next_claim};
pub use decision::{Decision, decide, doubts, older_whole};
pub use digest::Digest;
pub use number::{Attempt, Epoch, Generation, PartitionId, RunNumber};
pub use object::ObjectId;
pub use open::{OpenFacts, OpenStep, open_step};
pub use operator::OperatorName;
pub use owner::{HostId, NEWEST_OWNERS, Owner, OwnerStep, Term, owner_step};
pub use stage::{HeadSummary, ReplayStep, StageStep, replay_step, reproduces, stage_step};
pub use violation::Violation;
