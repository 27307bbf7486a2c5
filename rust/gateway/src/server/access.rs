//! Which requests are allowed, and what browsers may do with a response.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;
use crate::settings::Token;

/// The path that needs no token: a supervisor asks for it.
const OPEN: &str = "/healthz";

/// Headers of all responses. With them, no cache stores a response, and no other site shows it.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
];

/// Which requests are allowed.
#[derive(Clone)]
pub enum Access {
    /// Those with the token.
    Token(Token),
    /// Those whose `Host` header names this machine.
    Local,
}

impl Access {
    fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        match self {
            Self::Token(token) => {
                let sent = headers.get(header::AUTHORIZATION);
                if uri.path() == OPEN || sent.is_some_and(|sent| token.is_in(sent)) {
                    return Ok(());
                }
                let text = "send the gateway's token: Authorization: Bearer …";
                let problem = Problem::http(StatusCode::UNAUTHORIZED, text);
                Err(["Bearer", "Basic realm=\"holdfast\", charset=\"UTF-8\""]
                    .into_iter()
                    .fold(problem, |problem, scheme| {
                        let scheme = HeaderValue::from_static(scheme);
                        problem.with(header::WWW_AUTHENTICATE, scheme)
                    }))
            }
            // The name of another site may resolve to this machine (DNS rebinding). Requests of the
            // site's pages then name the site as their host.
            Self::Local => {
                let host = headers
                    .get(header::HOST)
                    .and_then(|host| host.to_str().ok());
                if host.is_some_and(is_local) {
                    return Ok(());
                }
                let text =
                    "without a token, a gateway answers to localhost, 127.0.0.1 and [::1] only";
                Err(Problem::http(StatusCode::MISDIRECTED_REQUEST, text))
            }
        }
    }
}

/// Whether a host, with or without a port, is a name of this machine.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Lets a request pass if it is allowed.
pub async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let mut response = match access.check(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_local() {
        for local in [
            "localhost",
            "LOCALHOST:8474",
            "127.0.0.1:1",
            "127.0.0.1",
            "[::1]:8474",
            "[::1]",
        ] {
            assert!(is_local(local), "{local}");
        }
        for other in [
            "",
            "example.org",
            "localhost.example.org:8474",
            "127.0.0.1.example.org",
            "192.0.2.1:8474",
            "127.0.0.1:80:x",
        ] {
            assert!(!is_local(other), "{other}");
        }
    }
}
