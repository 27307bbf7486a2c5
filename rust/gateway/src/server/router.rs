//! The router, made from the table of routes.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter};

use super::access::{Access, guard};
use crate::endpoints::answer;
use crate::page::page;
use crate::problem::Problem;
use crate::routes::ROUTES;
use crate::state::GatewayState;

/// Makes the router of a gateway.
pub fn router(state: &Arc<GatewayState>, access: Access) -> Router {
    let mut router = page();
    for route in ROUTES {
        // Other methods are refused, because a gateway only reads.
        let filter = MethodFilter::try_from(route.method.clone()).unwrap_or(MethodFilter::GET);
        for path in route.paths {
            let state = Arc::clone(state);
            let handler = move |request: Request| answer(state, route, path, request);
            router = router.route(path, MethodRouter::new().on(filter, handler));
        }
    }
    router
        .fallback(|| async {
            let text = "there is no such path: /openapi.json lists the paths";
            Problem::http(StatusCode::NOT_FOUND, text)
        })
        .method_not_allowed_fallback(|| async {
            let text = "the path has no such method: a gateway only reads";
            Problem::http(StatusCode::METHOD_NOT_ALLOWED, text)
        })
        .layer(from_fn_with_state(Arc::new(access), guard))
}
