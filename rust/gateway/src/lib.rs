//! The state of queries over HTTP: a reader like any other, for clients in any language.
//!
//! | Module | Content |
//! | --- | --- |
//! | `problem` | errors as the responses that clients get |
//! | `settings` | what a gateway is started with, and its limits |
//! | `request` | parameters, keys and times of a request, as text |
//! | `response` | rows as JSON or Arrow |
//! | `state` | the roots, and the bound on the work for them |
//! | `routes` | the one table of routes, and its OpenAPI description |
//! | `endpoints` | what each route does |
//! | `page` | the page that shows the state to people |
//! | `server` | connections, access, start and end |

mod endpoints;
mod page;
mod problem;
mod request;
mod response;
mod routes;
mod server;
mod settings;
mod state;

pub use server::Gateway;
pub use settings::{GatewaySettings, Limits, RootSettings, TlsFiles, Token};
