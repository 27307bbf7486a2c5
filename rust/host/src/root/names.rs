//! Names of objects, relative to the root.

use std::fmt;

use crate::protocol::{
    Attempt, Digest, Epoch, Generation, ObjectId, OperatorName, PartitionId, RunNumber, Term,
};

/// The name of a chunk.
///
/// The attempt and the nonce separate the chunks of concurrent attempts. Attempts of different
/// applications may have the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkName {
    /// The epoch.
    pub epoch: Epoch,
    /// The head that the chunk belongs to.
    pub object: ObjectId,
    /// The attempt that wrote it.
    pub attempt: Attempt,
    /// Random hexadecimal digits, from the caller.
    pub nonce: String,
    /// The chunk's number, from 0.
    pub index: u32,
}

impl fmt::Display for ChunkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}.{}-{}.{}",
            chunks_of(self.epoch, &self.object.operator, self.object.partition),
            self.object.run,
            self.attempt,
            self.nonce,
            self.index
        )
    }
}

/// A snapshot of one partition after one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The last epoch in the snapshot.
    pub epoch: Epoch,
    /// The chain's digest after that epoch.
    pub chain: Digest,
    /// The term of the owner that took it, so no later owner's snapshot has the same name.
    pub term: Term,
}

/// The root's format, id, query and partition count.
pub const META: &str = "meta.json";
/// Marks in Spark's checkpoint that the root has had state. If only the mark is left, the state was
/// deleted.
pub const STATE_MARK: &str = "query/holdfast";
/// The folder of run claims.
pub const RUNS: &str = "runs";
/// The folder of epochs.
pub const LOG: &str = "log";
/// The query id in Spark's checkpoint.
pub const SPARK_METADATA: &str = "query/metadata";
/// The folder of operators.
pub const OPERATORS: &str = "operators";
/// The folder of rewind marks.
pub const REWINDS: &str = "rewinds";
/// The folder of the marks of log removals.
pub const TRIMS: &str = "trims";
/// The folder of far-future rows.
pub const AHEAD: &str = "ahead";
/// The folder of what commands removed, with a folder for each command's run.
pub const REMOVED: &str = "removed";
/// Spark's commit log.
pub const SPARK_COMMITS: &str = "query/commits";
/// Spark's offset log.
pub const SPARK_OFFSETS: &str = "query/offsets";
/// The logs of Spark's sources, a folder each.
pub const SPARK_SOURCES: &str = "query/sources";
/// The files of Spark's own stateful operators.
pub const SPARK_STATE: &str = "query/state";

/// Returns the name of an object with which a probe tests put-if-absent; `id` is random.
pub fn probe(id: &str) -> String {
    format!("probe-{id}")
}

/// Returns whether a file of `operators/` belongs to an operator; operator names contain no dot.
pub fn is_of_operator(file: &str, name: &OperatorName) -> bool {
    file.split('.').next() == Some(name.as_str())
}

pub fn operator(name: &OperatorName) -> String {
    format!("{OPERATORS}/{name}.json")
}

pub fn operator_payload(name: &OperatorName, version: u16) -> String {
    format!("{OPERATORS}/{name}.{version}.json")
}

pub fn claim(number: RunNumber) -> String {
    format!("{RUNS}/{:020}", number.0)
}

/// Returns the name of the mark of a run id; a digest, since run ids may contain any characters.
pub fn run_mark(run_id: &str) -> String {
    format!("{RUNS}/ids/{}", Digest::of(run_id.as_bytes()))
}

pub fn owners(operator: &OperatorName, partition: PartitionId) -> String {
    format!("owners/{operator}/{partition}")
}

pub fn owner(operator: &OperatorName, partition: PartitionId, term: Term) -> String {
    format!(
        "{}/{:020}.{:020}",
        owners(operator, partition),
        term.run.0,
        term.generation.0
    )
}

/// The folder of the addresses for readers.
pub const READERS: &str = "readers";

/// Returns the name of the folder of an operator's addresses for readers.
pub fn readers_of(operator: &OperatorName) -> String {
    format!("{READERS}/{operator}")
}

/// Returns the name of the folder of a partition's addresses for readers.
pub fn readers(operator: &OperatorName, partition: PartitionId) -> String {
    format!("{}/{partition}", readers_of(operator))
}

/// Returns the name of the address for readers of the host that owns a partition in a term.
pub fn reader(operator: &OperatorName, partition: PartitionId, term: Term) -> String {
    format!(
        "{}/{:020}.{:020}",
        readers(operator, partition),
        term.run.0,
        term.generation.0
    )
}

/// Parses the file name of an owner claim or of an address; none for any other file.
pub fn parse_owner(file: &str) -> Option<Term> {
    let (run, generation) = file.split_once('.')?;
    Some(Term {
        run: RunNumber(run.parse().ok()?),
        generation: Generation(generation.parse().ok()?),
    })
}

/// Parses the full name of an address for readers; none for any other object.
pub fn parse_reader(name: &str) -> Option<(OperatorName, PartitionId, Term)> {
    let mut parts = name.strip_prefix(READERS)?.strip_prefix('/')?.split('/');
    let operator = OperatorName::new(parts.next()?).ok()?;
    let partition = PartitionId(parts.next()?.parse().ok()?);
    let term = parse_owner(parts.next()?)?;
    parts
        .next()
        .is_none()
        .then_some((operator, partition, term))
}

pub fn rewind(run: RunNumber) -> String {
    format!("{REWINDS}/{:020}", run.0)
}

pub fn removed(run: RunNumber, name: &str) -> String {
    format!("{REMOVED}/{run}/{name}")
}

pub fn epoch(epoch: Epoch) -> String {
    format!("{LOG}/{:020}", epoch.0)
}

/// Returns the name of the file of far-future rows of one partition and epoch.
pub fn far_future(operator: &OperatorName, epoch: Epoch, partition: PartitionId) -> String {
    format!("{AHEAD}/{operator}/{:020}.{partition}.arrow", epoch.0)
}

/// Parses the epoch of a file of far-future rows; none for any other file.
pub fn parse_far_future(file: &str) -> Option<Epoch> {
    let (epoch, _) = file.split_once('.')?;
    epoch.parse().ok().map(Epoch)
}

/// Returns the name of the folder of an operator's snapshots, with one folder for each partition.
pub fn all_snapshots(operator: &OperatorName) -> String {
    format!("snapshots/{operator}")
}

pub fn snapshots(operator: &OperatorName, partition: PartitionId) -> String {
    format!("{}/{partition}", all_snapshots(operator))
}

pub fn snapshot(id: &SnapshotId) -> String {
    format!(
        "{}/{:020}.{}.{}.{}",
        snapshots(&id.operator, id.partition),
        id.epoch.0,
        id.chain,
        id.term.run,
        id.term.generation
    )
}

/// Parses epoch, chain and term of a manifest's file name; none for any other file.
pub fn parse_snapshot(file: &str) -> Option<(Epoch, Digest, Term)> {
    let (epoch, rest) = file.split_once('.')?;
    let (chain, term) = rest.split_once('.')?;
    Some((
        Epoch(epoch.parse().ok()?),
        Digest::try_from(chain.to_owned()).ok()?,
        parse_owner(term)?,
    ))
}

const REMOVAL: &str = ".removal";

/// Returns the name of the mark of a snapshot that a host removes.
pub fn snapshot_removal(id: &SnapshotId) -> String {
    format!("{}{REMOVAL}", snapshot(id))
}

/// Parses epoch, chain and term of a removal mark's file name; none for any other file.
pub fn parse_snapshot_removal(file: &str) -> Option<(Epoch, Digest, Term)> {
    parse_snapshot(file.strip_suffix(REMOVAL)?)
}

pub fn snapshot_files(operator: &OperatorName, partition: PartitionId) -> String {
    format!("{}/files", snapshots(operator, partition))
}

/// Returns the name of a file of snapshots; `term` is the term of the owner that put it.
pub fn snapshot_file(
    operator: &OperatorName,
    partition: PartitionId,
    (digest, bytes): (Digest, u64),
    term: Term,
) -> String {
    let folder = snapshot_files(operator, partition);
    format!("{folder}/{digest}-{bytes}.{}.{}", term.run, term.generation)
}

/// Returns the name of the mark of a host of `run` that removes all epochs before `before`.
pub fn trim(before: Epoch, run: RunNumber) -> String {
    format!("{TRIMS}/{:020}.{run}", before.0)
}

/// Parses the file name of a mark of a log removal; none for any other file.
pub fn parse_trim(file: &str) -> Option<(Epoch, RunNumber)> {
    let (before, run) = file.split_once('.')?;
    Some((Epoch(before.parse().ok()?), RunNumber(run.parse().ok()?)))
}

/// Returns the name of the folder of an epoch's chunks. It is separate from the heads, so a listing
/// of the epoch has no chunks.
pub fn chunks(at: Epoch) -> String {
    format!("{}/chunks", epoch(at))
}

/// Returns the prefix of all chunks of one partition and epoch.
pub fn chunks_of(at: Epoch, operator: &OperatorName, partition: PartitionId) -> String {
    format!("{}/{operator}.{partition}.", chunks(at))
}

pub fn head(at: Epoch, object: &ObjectId) -> String {
    format!(
        "{}/{}.{}.{}",
        epoch(at),
        object.operator,
        object.partition,
        object.run
    )
}

/// Returns the name of the decision of an epoch; `rewind` is the run of the newest rewind that
/// covers it.
pub fn decision(at: Epoch, rewind: RunNumber) -> String {
    format!("{}/decided.{rewind}", epoch(at))
}

/// Parses the file name of a decision; none for any other file.
pub fn parse_decision(file: &str) -> Option<RunNumber> {
    let rewind = file.strip_prefix("decided.")?;
    rewind.parse().ok().map(RunNumber)
}

/// Parses the run in the file name of a head or a chunk, or the rewind's run in that of a decision;
/// none for any other file.
pub fn parse_run(file: &str) -> Option<RunNumber> {
    parse_decision(file).or_else(|| file.split('.').nth(2)?.parse().ok().map(RunNumber))
}

/// Parses the file name of a head; none for a chunk or any other file.
pub fn parse_head(file: &str) -> Option<ObjectId> {
    let mut parts = file.split('.');
    let (operator, partition, run) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    Some(ObjectId {
        operator: OperatorName::new(operator).ok()?,
        partition: PartitionId(partition.parse().ok()?),
        run: RunNumber(run.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_heads_and_owners_parse_and_a_chunk_is_not_a_head() {
        let object = ObjectId {
            operator: OperatorName::new("join-1_a").expect("a name"),
            partition: PartitionId(15),
            run: RunNumber(3),
        };
        let name = head(Epoch(42), &object);
        assert_eq!(name, "log/00000000000000000042/join-1_a.15.3");
        let file = name.rsplit('/').next().expect("a file");
        assert_eq!(parse_head(file), Some(object));
        let term = Term {
            run: RunNumber(3),
            generation: Generation(12),
        };
        let name = owner(
            &OperatorName::new("join").expect("a name"),
            PartitionId(15),
            term,
        );
        assert_eq!(
            parse_owner(name.rsplit('/').next().expect("a file")),
            Some(term)
        );
        assert_eq!(parse_owner("join#1"), None);
        let operator = OperatorName::new("join").expect("a name");
        let name = reader(&operator, PartitionId(15), term);
        assert_eq!(parse_reader(&name), Some((operator, PartitionId(15), term)));
        for other in [
            format!("{name}/x"),
            format!("{READERS}/join/15"),
            "x".to_owned(),
        ] {
            assert_eq!(parse_reader(&other), None, "{other}");
        }
        assert_eq!(parse_decision("decided.12"), Some(RunNumber(12)));
        for file in [
            "join.15.3",
            "join.15.3.7-ab.0",
            "join.15.3.7-ab.0.arrow",
            "decided.3",
        ] {
            assert_eq!(parse_run(file), Some(RunNumber(3)), "{file}");
        }
        assert_eq!(parse_run("notes.txt"), None);
        for other in [
            "decided.0",
            "join.15.3.7-ab.0",
            "join.15",
            "join.x.3",
            ".15.3",
            "join.15.3#1",
            "notes.txt",
        ] {
            assert_eq!(parse_head(other), None, "{other}");
        }
        for other in ["decided.0.1", "decided.", "decided.x", "join.15.3"] {
            assert_eq!(parse_decision(other), None, "{other}");
        }
    }

    #[test]
    fn names_of_snapshots_and_marks_parse() {
        let id = SnapshotId {
            operator: OperatorName::new("join").expect("a name"),
            partition: PartitionId(15),
            epoch: Epoch(42),
            chain: Digest::of(b"chain"),
            term: Term::first(RunNumber(3)),
        };
        let file = |name: String| name.rsplit('/').next().expect("a file").to_owned();
        let parsed = Some((id.epoch, id.chain, id.term));
        let (manifest, mark) = (file(snapshot(&id)), file(snapshot_removal(&id)));
        assert_eq!(parse_snapshot(&manifest), parsed);
        assert_eq!(parse_snapshot_removal(&mark), parsed);
        assert_eq!(parse_snapshot(&mark), None);
        assert_eq!(parse_snapshot_removal(&manifest), None);
        let mark = file(trim(Epoch(42), RunNumber(3)));
        assert_eq!(parse_trim(&mark), Some((Epoch(42), RunNumber(3))));
        assert_eq!(parse_trim("probe"), None);
    }
}
