//! The request of a session, which is sent to one host after the other.

use std::collections::HashMap;

use holdfast_core::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::net::writer_key::{WriterKey, WriterSecret};
use crate::protocol::HostId;

/// The request of a session.
pub struct SessionRequest<'a> {
    /// As the caller has given it.
    given: &'a str,
    unreachable: HashMap<HostId, String>,
}

impl<'a> SessionRequest<'a> {
    /// The request, JSON.
    pub fn new(given: &'a str) -> Self {
        Self {
            given,
            unreachable: HashMap::new(),
        }
    }

    /// Adds a host that did not answer, with the reason.
    pub fn add_unreachable(&mut self, host: HostId, reason: String) {
        self.unreachable.insert(host, reason);
    }

    /// Hosts that did not answer.
    pub fn unreachable(&self) -> &HashMap<HostId, String> {
        &self.unreachable
    }

    /// Returns the request for the host of the worker's own executor.
    ///
    /// # Errors
    /// `InvalidValue` if hosts were added and the request is not JSON.
    pub fn for_own_host(&self) -> Result<String> {
        // The host checks the request.
        if self.unreachable.is_empty() {
            return Ok(self.given.to_owned());
        }
        Ok(self.parsed()?.to_string())
    }

    /// Returns the request for the host that owns the partition in the root of this id, and the
    /// key that the host requires. The request has no secret.
    ///
    /// # Errors
    /// `InvalidValue` if the request is not JSON, or has no root or no secret.
    pub fn for_owner(&self, root_id: &str) -> Result<(String, WriterKey)> {
        let mut request = self.parsed()?;
        let secret = request.as_object_mut().and_then(|request| {
            let secret = request.remove("writer_secret")?;
            Some(WriterSecret(secret.as_str()?.to_owned()))
        });
        let root = request["root"].as_str();
        let Some((secret, root)) = secret.zip(root) else {
            let text = "session request: a session at another executor needs a root and a \
                        writer_secret";
            return Err(Error::new(ErrorKind::InvalidValue, text));
        };
        let key = WriterKey::of(&secret, root_id, root);
        Ok((request.to_string(), key))
    }

    fn parsed(&self) -> Result<Value> {
        let failed = |error: serde_json::Error| {
            Error::new(ErrorKind::InvalidValue, format!("session request: {error}"))
        };
        let mut request: Value = serde_json::from_str(self.given).map_err(failed)?;
        request["gone"] = serde_json::to_value(&self.unreachable).map_err(failed)?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_of_the_own_executor_gets_the_secret() {
        let given = r#"{"root":"r","writer_secret":"5ec7e7"}"#;
        let mut request = SessionRequest::new(given);
        assert_eq!(request.for_own_host().expect("is JSON"), given);
        request.add_unreachable(HostId("a".to_owned()), "silent".to_owned());
        let own = request.for_own_host().expect("is JSON");
        assert!(own.contains("5ec7e7") && own.contains("silent"), "{own}");
        let (sent, key) = request.for_owner("an id").expect("has a secret");
        assert!(
            !sent.contains("5ec7e7") && sent.contains("silent"),
            "{sent}"
        );
        let secret = WriterSecret("5ec7e7".to_owned());
        assert_eq!(key, WriterKey::of(&secret, "an id", "r"));
        let error = SessionRequest::new("{}").for_owner("an id");
        assert_eq!(error.expect_err("none").kind(), ErrorKind::InvalidValue);
    }
}
