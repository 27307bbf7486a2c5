//! The page that shows the state to people: three files, which are part of the program.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;

/// What the page may do: its own script and style, and requests to this gateway.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The files by path, with their types.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page.html")),
    (
        "/page.css",
        "text/css; charset=utf-8",
        include_str!("page.css"),
    ),
    (
        "/page.js",
        "text/javascript; charset=utf-8",
        include_str!("page.js"),
    ),
];

/// Makes the routes of the page.
pub fn page() -> Router {
    FILES
        .into_iter()
        .fold(Router::new(), |router, (path, media_type, content)| {
            let file = async move || {
                let media_type = HeaderValue::from_static(media_type);
                let headers = [
                    (header::CONTENT_TYPE, media_type),
                    (header::CONTENT_SECURITY_POLICY, POLICY),
                ];
                (headers, content).into_response()
            };
            router.route(path, get(file))
        })
}
