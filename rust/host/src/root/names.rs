//! Names of objects, relative to the root.

use super::SnapshotId;
use crate::protocol::{
    Digest, Epoch, Generation, ObjectId, OperatorName, PartitionId, RunNumber, Term,
};

/// Format, query, partitions.
pub const META: &str = "meta.json";
/// What the probe of put-if-absent is done with.
pub const PROBE: &str = "probe";
/// The folder of claims.
pub const RUNS: &str = "runs";
/// The folder of epochs.
pub const LOG: &str = "log";
/// The query id in Spark's checkpoint.
pub const SPARK_METADATA: &str = "query/metadata";
/// The folder of operators.
pub const OPERATORS: &str = "operators";
/// The folder of marks that the state was taken back.
pub const REWINDS: &str = "rewinds";
/// The folder of rows that were set aside.
pub const AHEAD: &str = "ahead";
/// Spark's commit log.
pub const SPARK_COMMITS: &str = "query/commits";
/// Spark's offset log.
pub const SPARK_OFFSETS: &str = "query/offsets";

/// Whether a file of `operators/` is of an operator: names have no dot.
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

/// The mark of a run id, which may have any characters.
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

/// The term of an owner's file name; none for anything else.
pub fn parse_owner(file: &str) -> Option<Term> {
    let (run, generation) = file.split_once('.')?;
    Some(Term {
        run: RunNumber(run.parse().ok()?),
        generation: Generation(generation.parse().ok()?),
    })
}

pub fn rewind(run: RunNumber) -> String {
    format!("{REWINDS}/{:020}", run.0)
}

pub fn removed(run: RunNumber, name: &str) -> String {
    format!("removed/{run}/{name}")
}

pub fn epoch(epoch: Epoch) -> String {
    format!("{LOG}/{:020}", epoch.0)
}

/// Rows that were set aside.
pub fn aside(operator: &OperatorName, epoch: Epoch, partition: PartitionId) -> String {
    format!("{AHEAD}/{operator}/{:020}.{partition}.arrow", epoch.0)
}

/// The epoch of a file of rows that were set aside; none for anything else.
pub fn parse_aside(file: &str) -> Option<Epoch> {
    let (epoch, _) = file.split_once('.')?;
    epoch.parse().ok().map(Epoch)
}

/// The folder of an operator's snapshots, a folder for each partition.
pub fn all_snapshots(operator: &OperatorName) -> String {
    format!("snapshots/{operator}")
}

pub fn snapshots(operator: &OperatorName, partition: PartitionId) -> String {
    format!("{}/{partition}", all_snapshots(operator))
}

pub fn snapshot(id: &SnapshotId) -> String {
    format!(
        "{}/{:020}.{}",
        snapshots(&id.operator, id.partition),
        id.epoch.0,
        id.chain
    )
}

/// Epoch and chain of a manifest's file name; none for anything else.
pub fn parse_snapshot(file: &str) -> Option<(Epoch, Digest)> {
    let (epoch, chain) = file.split_once('.')?;
    Some((
        Epoch(epoch.parse().ok()?),
        Digest::try_from(chain.to_owned()).ok()?,
    ))
}

pub fn snapshot_files(operator: &OperatorName, partition: PartitionId) -> String {
    format!("{}/files", snapshots(operator, partition))
}

pub fn snapshot_file(
    operator: &OperatorName,
    partition: PartitionId,
    digest: Digest,
    bytes: u64,
) -> String {
    format!("{}/{digest}-{bytes}", snapshot_files(operator, partition))
}

/// What the names of all heads and chunks of a partition's epoch begin with.
pub fn staged(at: Epoch, operator: &OperatorName, partition: PartitionId) -> String {
    format!("{}/{operator}.{partition}.", epoch(at))
}

pub fn head(at: Epoch, object: &ObjectId) -> String {
    format!(
        "{}{}",
        staged(at, &object.operator, object.partition),
        object.run
    )
}

/// The object of a head's file name; none for a chunk or anything else.
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
    fn names_of_heads_and_owners_are_read_back_and_a_chunks_is_not_a_head() {
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
        for other in [
            "join.15.3.7-ab.0",
            "join.15",
            "join.x.3",
            ".15.3",
            "join.15.3#1",
            "notes.txt",
        ] {
            assert_eq!(parse_head(other), None, "{other}");
        }
    }
}
