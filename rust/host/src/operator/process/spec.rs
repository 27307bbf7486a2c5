//! Settings of a process operator, as the request has them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::operator::input::RowsSpec;
use crate::operator::output::OutputColumn;
use crate::root::{StoreSerdes, StoredKind};

/// The settings of a process operator.
#[derive(Debug, Clone, Deserialize)]
pub struct ProcessSpec {
    /// The input's columns.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// The columns of the batches that the host sends to the user's code.
    #[serde(rename = "output")]
    pub columns: Vec<OutputColumn>,
    /// The stores of the user's code.
    pub stores: Vec<ProcessStore>,
    /// Whether the code does the same for the same rows. If not, the code's output is stored, and a
    /// later session with the same input uses the log object of the earlier session.
    pub deterministic: bool,
}

/// A store of the user's code.
#[derive(Debug, Clone, Deserialize)]
pub struct ProcessStore {
    /// Its name.
    pub name: String,
    /// Its kind and settings.
    #[serde(flatten)]
    pub kind: StoredKind,
    /// The serdes of its keys and values.
    #[serde(flatten)]
    pub serdes: StoreSerdes,
}

impl ProcessSpec {
    /// Returns the serdes by store, as the root records them. Stores without serdes are left out.
    pub fn serdes(&self) -> BTreeMap<String, StoreSerdes> {
        let typed = self
            .stores
            .iter()
            .filter(|store| store.serdes != StoreSerdes::default());
        typed
            .map(|store| (store.name.clone(), store.serdes.clone()))
            .collect()
    }

    /// Returns each store's kind and settings, as the root records them.
    pub fn settings(&self) -> BTreeMap<String, Value> {
        let settings =
            |store: &ProcessStore| serde_json::to_value(store.kind).unwrap_or(Value::Null);
        self.stores
            .iter()
            .map(|store| (format!("store {}", store.name), settings(store)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::spec::OperatorSpec;

    #[test]
    fn a_request_from_python_is_parsed() {
        let json = r#"{"keys": ["k"], "left": ["x"], 
            "output": [{"name": "k", "from": "key", "index": 0},
                {"name": "x", "from": "left", "index": 0}],
            "stores": [{"name": "hits", "kind": "key_value", "value_serde": "626f6f6c"},
                {"name": "w", "kind": "timestamped_window", "retention": 60,
                        "window_size": 10, "retain_duplicates": false},
                        {"name": "s", "kind": "session", "retention": 5}], "deterministic": true}"#;
        let spec: ProcessSpec = serde_json::from_str(json).expect("valid");
        let kinds: Vec<&str> = OperatorSpec::stores(&spec)
            .iter()
            .map(|store| store.kind.name())
            .collect();
        assert_eq!(kinds, ["key_value", "timestamped_window", "session"]);
        assert_eq!(
            spec.settings()["store s"],
            serde_json::json!({"kind": "session", "retention": 5})
        );
        let hits = StoreSerdes {
            key: None,
            value: Some("626f6f6c".to_owned()),
        };
        assert_eq!(spec.serdes(), BTreeMap::from([("hits".to_owned(), hits)]));
    }
}
