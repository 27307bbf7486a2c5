//! The name of an operator within its query's state.

use std::fmt;

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The name of an operator: 1 to 100 ASCII letters, digits, `_` or `-`.
///
/// It becomes part of object names, in which a dot separates the parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperatorName(String);

impl OperatorName {
    /// Returns a checked operator name.
    ///
    /// # Errors
    /// `InvalidValue` for a name that cannot be part of an object's name.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        if is_name_part(&name) {
            return Ok(Self(name));
        }
        Err(Error::new(
            ErrorKind::InvalidValue,
            format!(
                "operator name {name:?}: use 1 to 100 ASCII letters, digits, '_' or '-' (give one \
                 with name=...)"
            ),
        ))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether a name can be part of an object's name, in which a dot separates the parts: 1 to
/// 100 ASCII letters, digits, `_` or `-`.
pub fn is_name_part(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    (1..=100).contains(&name.len()) && name.bytes().all(fits)
}

impl TryFrom<String> for OperatorName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        Self::new(name)
    }
}

impl From<OperatorName> for String {
    fn from(name: OperatorName) -> Self {
        name.0
    }
}

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_unsafe_in_object_names_is_refused() {
        for name in ["", "a.b", "a/b", "..", "a b", "ä", &"x".repeat(101)] {
            let error = OperatorName::new(name).expect_err("not a name");
            assert_eq!(error.kind(), ErrorKind::InvalidValue);
            assert!(error.to_string().contains("name="), "{error}");
        }
        assert_eq!(
            OperatorName::new("join_asof-currency")
                .map(|n| n.to_string())
                .ok()
                .as_deref(),
            Some("join_asof-currency")
        );
    }
}
