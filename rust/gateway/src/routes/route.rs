//! A route.

use axum::http::Method;
use percent_encoding::percent_decode_str;

use crate::problem::Problem;
use crate::request::{
    AS_OF, AT_LEAST, COLUMNS, END, EPOCH, FROM_EPOCH, ISOLATION_LEVEL, LIMIT, PARTITION, PREFIX,
    Parameter, REWIND, STALE_OK, START, TIME_FROM, TIME_TO, TIMEOUT, TO_EPOCH,
};

/// What a route answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// That the gateway runs.
    Health,
    /// The OpenAPI description.
    OpenApi,
    /// The figures of the gateway and of the hosts.
    Metrics,
    /// The roots.
    Roots,
    /// The tables of a root.
    Tables,
    /// The hosts of a root.
    Hosts,
    /// The partitions of a root.
    Partitions,
    /// One row.
    Row,
    /// The rows of many keys.
    Rows,
    /// The rows of a range.
    Scan,
    /// The versions of a key.
    Versions,
    /// The changes of a table.
    Changes,
}

impl Endpoint {
    /// Whether rows are sent as they are read, so that the length of the response is not known.
    pub fn is_streamed(self) -> bool {
        matches!(self, Self::Scan | Self::Versions | Self::Changes)
    }

    /// Whether the response has the newest rewind that took its epoch back, so that a client that
    /// follows changes notices the next one.
    pub fn shows_rewind(self) -> bool {
        matches!(self, Self::Scan | Self::Changes)
    }

    /// The name among the figures of the gateway.
    pub fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::OpenApi => "openapi",
            Self::Metrics => "metrics",
            Self::Roots => "roots",
            Self::Tables => "tables",
            Self::Hosts => "hosts",
            Self::Partitions => "partitions",
            Self::Row => "row",
            Self::Rows => "rows",
            Self::Scan => "scan",
            Self::Versions => "versions",
            Self::Changes => "changes",
        }
    }
}

/// A route of the gateway.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// What it answers with.
    pub endpoint: Endpoint,
    /// The method.
    pub method: Method,
    /// The paths. `{*key}` is the rest of a path.
    pub paths: &'static [&'static str],
    /// What it does, in a few words.
    pub summary: &'static str,
    /// The parameters of its query.
    pub parameters: &'static [&'static Parameter],
}

/// The parameters of reads by keys.
const OF_KEYS: &[&Parameter] = &[
    &AS_OF,
    &COLUMNS,
    &EPOCH,
    &AT_LEAST,
    &TIMEOUT,
    &ISOLATION_LEVEL,
    &STALE_OK,
];

/// All routes. Those of a root have two paths: the short one is for a gateway with one root.
pub const ROUTES: &[Route] = &[
    Route {
        endpoint: Endpoint::Health,
        method: Method::GET,
        paths: &["/healthz"],
        summary: "Whether the gateway runs",
        parameters: &[],
    },
    Route {
        endpoint: Endpoint::OpenApi,
        method: Method::GET,
        paths: &["/openapi.json"],
        summary: "This description",
        parameters: &[],
    },
    Route {
        endpoint: Endpoint::Metrics,
        method: Method::GET,
        paths: &["/metrics"],
        summary: "Figures of the gateway and of the state hosts, for Prometheus",
        parameters: &[],
    },
    Route {
        endpoint: Endpoint::Roots,
        method: Method::GET,
        paths: &["/v1/roots"],
        summary: "The roots that the gateway serves",
        parameters: &[],
    },
    Route {
        endpoint: Endpoint::Tables,
        method: Method::GET,
        paths: &["/v1/tables", "/v1/roots/{root}/tables"],
        summary: "The tables of a root",
        parameters: &[],
    },
    Route {
        endpoint: Endpoint::Hosts,
        method: Method::GET,
        paths: &["/v1/hosts", "/v1/roots/{root}/hosts"],
        summary: "The state hosts that answer, with the figures of their partitions",
        parameters: &[],
    },
    Route {
        endpoint: Endpoint::Partitions,
        method: Method::GET,
        paths: &["/v1/partitions", "/v1/roots/{root}/partitions"],
        summary: "What each partition does, and what is wrong with it",
        parameters: &[],
    },
    Route {
        endpoint: Endpoint::Row,
        method: Method::GET,
        paths: &[
            "/v1/tables/{table}/rows/{*key}",
            "/v1/roots/{root}/tables/{table}/rows/{*key}",
        ],
        summary: "The row of a key",
        parameters: OF_KEYS,
    },
    Route {
        endpoint: Endpoint::Rows,
        method: Method::POST,
        paths: &[
            "/v1/tables/{table}/rows",
            "/v1/roots/{root}/tables/{table}/rows",
        ],
        summary: "A row, or null, for each of many keys",
        parameters: OF_KEYS,
    },
    Route {
        endpoint: Endpoint::Scan,
        method: Method::GET,
        paths: &[
            "/v1/tables/{table}/scan",
            "/v1/roots/{root}/tables/{table}/scan",
        ],
        summary: "The rows of all keys, or of a range of them",
        parameters: &[
            &PREFIX,
            &START,
            &END,
            &AS_OF,
            &TIME_FROM,
            &TIME_TO,
            &COLUMNS,
            &LIMIT,
            &EPOCH,
            &AT_LEAST,
            &TIMEOUT,
            &ISOLATION_LEVEL,
            &STALE_OK,
        ],
    },
    Route {
        endpoint: Endpoint::Versions,
        method: Method::GET,
        paths: &[
            "/v1/tables/{table}/versions/{*key}",
            "/v1/roots/{root}/tables/{table}/versions/{*key}",
        ],
        summary: "The versions of a key, oldest first",
        parameters: &[
            &TIME_FROM,
            &TIME_TO,
            &COLUMNS,
            &LIMIT,
            &EPOCH,
            &AT_LEAST,
            &TIMEOUT,
            &ISOLATION_LEVEL,
            &STALE_OK,
        ],
    },
    Route {
        endpoint: Endpoint::Changes,
        method: Method::GET,
        paths: &[
            "/v1/tables/{table}/changes",
            "/v1/roots/{root}/tables/{table}/changes",
        ],
        summary: "The changes of a table, epoch by epoch",
        parameters: &[&FROM_EPOCH, &TO_EPOCH, &REWIND, &PARTITION],
    },
];

/// What the path of a request names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PathValues {
    /// The root; none in a short path.
    pub root: Option<String>,
    /// The table.
    pub table: String,
    /// The columns of the key.
    pub key: Vec<String>,
}

impl PathValues {
    /// Reads the values from a request's path that matches one of a route's.
    ///
    /// A slash within a value is `%2F`, so the path is split before it is decoded.
    ///
    /// # Errors
    /// A problem if a value is no UTF-8.
    pub fn parse(template: &str, path: &str) -> Result<Self, Problem> {
        let mut values = Self::default();
        let mut given = path.split('/').map(|text| {
            let decoded = percent_decode_str(text).decode_utf8();
            decoded.map(std::borrow::Cow::into_owned).map_err(|error| {
                Problem::value(format!("{text:?} in the path is no UTF-8: {error}"))
            })
        });
        for part in template.split('/') {
            match part {
                "{*key}" => values.key = given.by_ref().collect::<Result<_, _>>()?,
                _ => {
                    let value = given.next().transpose()?.unwrap_or_default();
                    match part {
                        "{root}" => values.root = Some(value),
                        "{table}" => values.table = value,
                        _ => {}
                    }
                }
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_within_a_value_are_escaped() {
        let template = "/v1/roots/{root}/tables/{table}/rows/{*key}";
        let path = "/v1/roots/r/tables/a.b/rows/x%2Fy/%C3%A9%20+/";
        let values = PathValues::parse(template, path).expect("UTF-8");
        assert_eq!(values.root.as_deref(), Some("r"));
        assert_eq!(values.table, "a.b");
        assert_eq!(values.key, ["x/y", "é +", ""]);
        let path = "/v1/roots/r/tables/a.b/rows/%FF";
        assert!(PathValues::parse(template, path).is_err());
    }
}
