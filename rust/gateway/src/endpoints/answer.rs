//! Answers requests.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::asked::{Asked, json_response};
use super::{lists, metrics, rows, streams};
use crate::problem::Problem;
use crate::request::Params;
use crate::response::Format;
use crate::routes::{self, Endpoint, PathValues, Route};
use crate::state::GatewayState;

/// Answers a request to a route; `template` is the path that matches.
pub async fn answer(
    state: Arc<GatewayState>,
    route: &'static Route,
    template: &'static str,
    request: Request<Body>,
) -> Response {
    let (limit, started) = (state.limits.timeout, Instant::now());
    // The reader ends at the limit by itself. Its error names what it waited for.
    let patience = limit + limit / 4;
    let answered = answered(Arc::clone(&state), route, template, request);
    let response = match timeout(patience, answered).await {
        Ok(Ok(response)) => response,
        Ok(Err(problem)) => problem.into_response(),
        Err(_) => {
            let text = format!("no answer within {} s", patience.as_secs_f64());
            Problem::http(StatusCode::GATEWAY_TIMEOUT, text).into_response()
        }
    };
    let status = response.status().as_u16();
    state
        .traffic
        .add(route.endpoint.name(), status, started.elapsed());
    response
}

async fn answered(
    state: Arc<GatewayState>,
    route: &'static Route,
    template: &'static str,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    if route.endpoint.is_streamed() && head.version < Version::HTTP_11 {
        let text = "HTTP/1.0 does not show whether a response without a length is complete: send \
                    the request with HTTP/1.1 (nginx: proxy_http_version 1.1)";
        return Err(Problem::http(StatusCode::HTTP_VERSION_NOT_SUPPORTED, text));
    }
    let asked = Asked {
        endpoint: route.endpoint,
        path: PathValues::parse(template, head.uri.path())?,
        params: Params::parse(head.uri.query(), route.parameters)?,
        format: match route.endpoint {
            // Prometheus accepts its own formats only.
            Endpoint::Metrics => Format::Json,
            _ => Format::accepted(&head.headers)?,
        },
        state,
    };
    match route.endpoint {
        Endpoint::Health => Ok(json_response("{\"status\":\"ok\"}\n".to_owned(), None)),
        Endpoint::OpenApi => Ok(json_response(routes::description().to_string(), None)),
        Endpoint::Metrics => metrics::metrics(asked).await,
        Endpoint::Roots => lists::roots(asked).await,
        Endpoint::Tables => lists::tables(asked).await,
        Endpoint::Hosts => lists::hosts(asked).await,
        Endpoint::Partitions => lists::partitions(asked).await,
        Endpoint::Row => rows::row(asked).await,
        Endpoint::Rows => {
            let limit = asked.state.limits.body_bytes;
            let body = to_bytes(body, limit).await.map_err(|error| {
                let text = format!("the body is longer than {limit} bytes, or incomplete: {error}");
                Problem::http(StatusCode::PAYLOAD_TOO_LARGE, text)
            })?;
            rows::rows(asked, body).await
        }
        Endpoint::Scan => streams::scan(asked).await,
        Endpoint::Versions => streams::versions(asked).await,
        Endpoint::Changes => streams::changes(asked).await,
    }
}
