//! An error as a client gets it: RFC 9457.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdfast_core::{Error, ErrorKind};
use serde_json::json;

/// The header with the epoch that a response is of.
pub const EPOCH: HeaderName = HeaderName::from_static("holdfast-epoch");
/// The header that says whether rows contain staged changes of the next epoch.
pub const ISOLATION_LEVEL: HeaderName = HeaderName::from_static("holdfast-isolation-level");
/// The header that says how many final epochs are newer.
pub const BEHIND: HeaderName = HeaderName::from_static("holdfast-behind");

/// The header with the newest rewind that took the epoch of the response back; 0 for none.
pub const REWIND: HeaderName = HeaderName::from_static("holdfast-rewind");

/// An error as a client gets it.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    /// The class in `holdfast.errors`, or Python's own; none for a problem of HTTP itself.
    class: Option<String>,
    detail: String,
    epoch: Option<i64>,
    /// The oldest epoch whose changes can be read.
    oldest_epoch: Option<i64>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem of HTTP itself.
    pub fn http(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            class: None,
            detail: detail.into(),
            epoch: None,
            oldest_epoch: None,
            headers: Vec::new(),
        }
    }

    /// A wrong value in a request.
    pub fn value(detail: impl Into<String>) -> Self {
        Self {
            class: Some("ValueError".to_owned()),
            ..Self::http(StatusCode::BAD_REQUEST, detail)
        }
    }

    /// Something that the state does not have.
    pub fn absent(detail: impl Into<String>) -> Self {
        Self {
            class: Some("KeyError".to_owned()),
            ..Self::http(StatusCode::NOT_FOUND, detail)
        }
    }

    /// The gateway has too many requests.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::http(StatusCode::SERVICE_UNAVAILABLE, detail)
            .with(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds the oldest epoch whose changes can be read, if the requested changes are lost.
    #[must_use]
    pub fn with_oldest_epoch(mut self, epoch: i64) -> Self {
        self.oldest_epoch = Some(epoch);
        self
    }

    /// Adds the epoch in which something is missing.
    #[must_use]
    pub fn in_epoch(mut self, epoch: i64) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// Whether the problem is an error of this kind.
    pub fn is_of(&self, kind: ErrorKind) -> bool {
        self.class == Some(class_of(kind))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidValue | ErrorKind::InvalidType | ErrorKind::UnsupportedOperation => {
                StatusCode::BAD_REQUEST
            }
            ErrorKind::StateMismatch => StatusCode::NOT_FOUND,
            // Usually, the log or the snapshots no longer hold the epoch.
            ErrorKind::Restore | ErrorKind::ChangesLost => StatusCode::GONE,
            ErrorKind::NotUpToBound
            | ErrorKind::InvalidState
            | ErrorKind::StoreClosed
            | ErrorKind::StoreLocked
            | ErrorKind::Fenced => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Self {
            class: Some(class_of(error.kind())),
            ..Self::http(status, error.to_string())
        };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return problem.with(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        problem
    }
}

/// The Python exception of a kind of error.
fn class_of(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::InvalidValue => "ValueError".to_owned(),
        ErrorKind::InvalidType => "TypeError".to_owned(),
        ErrorKind::Io | ErrorKind::InvalidState => "HoldfastError".to_owned(),
        // The kind has an older name on the wire.
        ErrorKind::StateMismatch => "StateMismatchError".to_owned(),
        kind => format!("{}Error", kind.name()),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut members = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Some(class) = self.class {
            members["class"] = class.into();
        }
        if let Some(epoch) = self.oldest_epoch {
            members["oldest_epoch"] = epoch.into();
        }
        let mut response = Response::new(Body::from(members.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(epoch) = self.epoch {
            headers.insert(EPOCH, HeaderValue::from(epoch));
        }
        headers.extend(self.headers);
        response
    }
}
