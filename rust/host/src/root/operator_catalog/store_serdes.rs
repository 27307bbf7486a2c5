//! The serdes of a processor's stores, stored so that other serdes cannot misread the bytes.

use std::collections::BTreeMap;

use holdfast_core::serde::{Serde, SerdeSide};
use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The serdes of one store, as descriptors in hex. Keys or values that are bytes have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSerdes {
    /// The serde of keys.
    #[serde(default, rename = "key_serde", skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The serde of values.
    #[serde(
        default,
        rename = "value_serde",
        skip_serializing_if = "Option::is_none"
    )]
    pub value: Option<String>,
}

/// Names the first store whose current serdes cannot read the bytes of its earlier ones.
///
/// A key or value without a serde is plain bytes and is not checked. Descriptors do not contain
/// nullability: a new column that must not be null fails at the first row that lacks it.
pub fn difference(
    stored: &BTreeMap<String, StoreSerdes>,
    now: &BTreeMap<String, StoreSerdes>,
) -> Option<String> {
    now.iter().find_map(|(store, new)| {
        let old = stored.get(store)?;
        let sides = [
            ("key", SerdeSide::Key, &old.key, &new.key),
            ("value", SerdeSide::Value, &old.value, &new.value),
        ];
        sides.into_iter().find_map(|(what, side, old, new)| {
            let error = check(old.as_deref()?, new.as_deref()?, side).err()?;
            Some(format!("store {store}: {what}: {error}"))
        })
    })
}

fn check(old: &str, new: &str, side: SerdeSide) -> Result<()> {
    if old == new {
        return Ok(());
    }
    Serde::of_descriptor(&descriptor_bytes(new)?)?.check_descriptor(&descriptor_bytes(old)?, side)
}

/// Returns the bytes of a serde's descriptor, which the root stores in hex.
///
/// # Errors
/// `Serialization` if the text is not hex.
pub fn descriptor_bytes(hex: &str) -> Result<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(&pair[0])? << 4 | digit(&pair[1])?) as u8);
    let (pairs, rest) = hex.as_bytes().as_chunks();
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty()).ok_or_else(|| {
        Error::new(
            ErrorKind::Serialization,
            format!("{hex:?} is not the descriptor of a serde"),
        )
    })
}
