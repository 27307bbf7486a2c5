//! The contract's cases of versioned stores, as data. Each runs in files and in memory, plain and
//! with a commit after every operation, and in files also with a reopen after every operation.

use holdfast_core::{
    Commit, Database, DatabaseOptions, PutResult, StoreKind, StoreSpec, Timestamp, VersionedStore,
};
use serde_json::Value;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    Nothing,
    Commit,
    Reopen,
    NothingInMemory,
    CommitInMemory,
}

impl After {
    fn in_memory(self) -> bool {
        matches!(self, Self::NothingInMemory | Self::CommitInMemory)
    }
}

struct Case {
    spec: StoreSpec,
    db: Arc<Database>,
    /// Declared after the database, to be dropped after it: RocksDB waits a second if its files are
    /// removed.
    dir: tempfile::TempDir,
}

impl Case {
    fn new(case: &Value, after: After) -> Self {
        let kind = StoreKind::Versioned {
            history_retention: case["history_retention"].as_i64().unwrap(),
            segment_interval: case["segment_interval"].as_i64().unwrap(),
        };
        let spec = StoreSpec::new("s", kind);
        let dir = tempfile::tempdir().unwrap();
        let db = if after.in_memory() {
            Database::open_in_memory(std::slice::from_ref(&spec), DatabaseOptions::default())
                .unwrap()
        } else {
            Database::open(
                dir.path(),
                std::slice::from_ref(&spec),
                DatabaseOptions::default(),
            )
            .unwrap()
        };
        Self { dir, spec, db }
    }

    fn store(&self) -> VersionedStore {
        self.db.versioned("s").unwrap()
    }

    fn after(&mut self, after: After) {
        if matches!(after, After::Nothing | After::NothingInMemory) {
            return;
        }
        self.db.commit(Commit::default().offsets).unwrap();
        if after == After::Reopen {
            self.db.close().unwrap();
            self.db = Database::open(
                self.dir.path(),
                std::slice::from_ref(&self.spec),
                DatabaseOptions::default(),
            )
            .unwrap();
        }
    }
}

type Found = Option<(Vec<u8>, i64, Option<i64>)>;

fn expected(result: &Value) -> Found {
    (!result.is_null()).then(|| {
        (
            result["value"].as_str().unwrap().as_bytes().to_vec(),
            result["timestamp"].as_i64().unwrap(),
            result["valid_to"].as_i64(),
        )
    })
}

fn time(value: &Value) -> Timestamp {
    Timestamp(value.as_i64().unwrap())
}

#[test]
fn every_contract_case_holds() {
    for line in include_str!("../versioned.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        for after in [
            After::Nothing,
            After::Commit,
            After::Reopen,
            After::NothingInMemory,
            After::CommitInMemory,
        ] {
            run(&case, after);
        }
    }
}

fn run(case: &Value, after: After) {
    let mut this = Case::new(case, after);
    for (n, op) in case["operations"].as_array().unwrap().iter().enumerate() {
        let place = format!(
            "{} operation {n} ({op}) with {after:?} after each",
            case["id"]
        );
        let (store, key) = (this.store(), op["key"].as_str().unwrap().as_bytes());
        let mut tx = this.db.transaction().unwrap();
        let to_found = |v: Option<holdfast_core::Version<'_>>| {
            v.map(|v| (v.value.to_vec(), v.timestamp.0, v.valid_to.map(|t| t.0)))
        };
        match op["op"].as_str().unwrap() {
            "put" => {
                let result = store
                    .put(
                        &mut tx,
                        key,
                        op["value"].as_str().map(str::as_bytes),
                        time(&op["timestamp"]),
                    )
                    .unwrap();
                let expected = match op["valid_to"].as_str() {
                    Some(_) => PutResult {
                        accepted: false,
                        valid_to: None,
                    },
                    None => PutResult {
                        accepted: true,
                        valid_to: op["valid_to"].as_i64().map(Timestamp),
                    },
                };
                assert_eq!(result, expected, "{place}");
            }
            "get" => {
                let found = match op.get("as_of") {
                    Some(as_of) => store.get_as_of(&mut tx, key, time(as_of), to_found),
                    None => store.get(&mut tx, key, to_found),
                };
                assert_eq!(found.unwrap(), expected(&op["result"]), "{place}");
            }
            "delete" => {
                let found = store
                    .delete(&mut tx, key, time(&op["timestamp"]), to_found)
                    .unwrap();
                assert_eq!(found, expected(&op["result"]), "{place}");
            }
            "versions" => {
                let ascending = op["descending"].as_bool() == Some(false);
                let mut scan = store
                    .versions(&mut tx, key, time(&op["from"]), time(&op["to"]), ascending)
                    .unwrap();
                let mut found = Vec::new();
                scan.for_each(&mut |_, version| {
                    found.extend(to_found(Some(version)));
                    true
                })
                .unwrap();
                let expected: Vec<_> = op["result"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(expected)
                    .collect();
                assert_eq!(found, expected, "{place}");
            }
            other => panic!("{place}: unknown operation {other}"),
        }
        drop(tx);
        this.after(after);
    }
}
