//! A request for rows or lists, and its response.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use holdfast_host::protocol::IsolationLevel;
use holdfast_host::reader::{AnswerState, ReadFrom};

use crate::problem::{BEHIND, EPOCH, ISOLATION_LEVEL, Problem};
use crate::request::Params;
use crate::response::Format;
use crate::routes::{Endpoint, PathValues};
use crate::state::{GatewayState, ServedRoot};

/// A request for rows or lists.
pub struct Asked {
    /// What all requests share.
    pub state: Arc<GatewayState>,
    /// What the route answers with.
    pub endpoint: Endpoint,
    /// What the path names.
    pub path: PathValues,
    /// The parameters.
    pub params: Params,
    /// The format of the response.
    pub format: Format,
}

impl Asked {
    /// The root that the path names.
    ///
    /// # Errors
    /// A problem names the roots.
    pub fn root(&self) -> Result<Arc<ServedRoot>, Problem> {
        self.state.root(self.path.root.as_deref())
    }

    /// Which state to read.
    ///
    /// # Errors
    /// A problem names the parameter that is wrong.
    pub fn read_from(&self) -> Result<ReadFrom, Problem> {
        let (offline, longest) = (self.state.offline, self.state.limits.timeout);
        self.params.read_from(offline, longest)
    }
}

/// A response in JSON.
pub fn json_response(json: String, epoch: Option<i64>) -> Response {
    response(Body::from(json), Format::Json, epoch)
}

/// A response with rows that are of a state.
pub fn rows_response(body: Body, format: Format, state: AnswerState) -> Response {
    let level = match state.isolation_level {
        IsolationLevel::ReadCommitted => "read_committed",
        IsolationLevel::ReadUncommitted => "read_uncommitted",
    };
    let mut response = response(body, format, Some(state.epoch.0));
    let headers = response.headers_mut();
    headers.insert(ISOLATION_LEVEL, HeaderValue::from_static(level));
    headers.insert(BEHIND, HeaderValue::from(state.behind));
    response
}

fn response(body: Body, format: Format, epoch: Option<i64>) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, format.content_type());
    if let Some(epoch) = epoch {
        headers.insert(EPOCH, HeaderValue::from(epoch));
    }
    response
}
