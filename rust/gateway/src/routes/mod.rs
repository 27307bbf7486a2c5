//! The one table of routes: the router and the OpenAPI description are made from it.

mod openapi;
mod route;

pub use openapi::description;
pub use route::{Endpoint, PathValues, ROUTES, Route};
