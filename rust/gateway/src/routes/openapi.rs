//! The OpenAPI description of the routes.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::route::{Endpoint, ROUTES, Route};
use crate::request::{Parameter, ParameterKind};
use crate::response::{Format, MEDIA_TYPE};

/// Describes all routes.
pub fn description() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        for path in route.paths {
            let method = route.method.as_str().to_ascii_lowercase();
            let entry = paths
                .entry(path.replace("{*", "{"))
                .or_insert_with(|| json!({}));
            entry[method] = operation(route, path);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Reads the state of streaming queries. All rows of a response, except \
                            changes, are of one epoch, which the header Holdfast-Epoch names.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
            "headers": {
                "Holdfast-Epoch": {
                    "description": "The epoch that the response is of.",
                    "schema": {"type": "integer"},
                },
                "Holdfast-Rewind": {
                    "description": "The newest rewind that took the epoch back; 0 for none.",
                    "schema": {"type": "integer"},
                },
            },
            "responses": {
                "Problem": {
                    "description": "An error (RFC 9457); `class` is its class in \
                                    `holdfast.errors`, or Python's own.",
                    "content": {"application/problem+json": {"schema": {
                        "type": "object",
                        "required": ["type", "title", "status", "detail"],
                        "properties": {
                            "type": {"type": "string"},
                            "title": {"type": "string"},
                            "status": {"type": "integer"},
                            "detail": {"type": "string"},
                            "class": {"type": "string"},
                            "oldest_epoch": {
                                "type": "integer",
                                "description": "If changes are lost: the oldest epoch whose \
                                                changes are there.",
                            },
                        },
                    }}},
                },
            },
        },
        "security": [{}, {"bearer": []}, {"password": []}],
    })
}

fn operation(route: &Route, path: &str) -> Value {
    let is_short = route.paths.len() == 1 || !path.contains("{root}");
    let id = format!("{:?}", route.endpoint);
    let id = if is_short { id } else { format!("{id}OfRoot") };
    let mut parameters: Vec<Value> = path.split('/').filter_map(path_parameter).collect();
    parameters.extend(
        route
            .parameters
            .iter()
            .map(|parameter| query_parameter(parameter)),
    );
    let mut operation = json!({
        "operationId": id,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {"200": answer(route.endpoint), "default": {
            "$ref": "#/components/responses/Problem",
        }},
    });
    if route.endpoint == Endpoint::Health {
        operation["security"] = json!([{}]);
    }
    if route.method == Method::POST {
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": {
                "type": "array",
                "description": "The keys. Each is an array with a value for each key column, an \
                                object with the columns' names, or the value of the only column.",
            }}},
        });
    }
    operation
}

fn path_parameter(part: &str) -> Option<Value> {
    let name = part.strip_prefix('{')?.strip_suffix('}')?;
    let about = match name {
        "root" => "The root's name.",
        "table" => "The operator's name; operator.store if the operator has several tables.",
        _ => {
            "The value of the key column; of several columns a path segment each. A window's \
              start and a session's start and end follow."
        }
    };
    Some(json!({
        "name": name.trim_start_matches('*'),
        "in": "path",
        "required": true,
        "description": about,
        "schema": {"type": "string"},
    }))
}

fn query_parameter(parameter: &Parameter) -> Value {
    let one = match parameter.kind {
        ParameterKind::Count => json!({"type": "integer", "minimum": 0}),
        ParameterKind::Seconds => json!({"type": "number", "minimum": 0}),
        ParameterKind::Moment | ParameterKind::Text => json!({"type": "string"}),
        ParameterKind::OneOf(values) => json!({"type": "string", "enum": values}),
    };
    let schema = if parameter.repeats {
        json!({"type": "array", "items": one})
    } else {
        one
    };
    json!({
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
        "schema": schema,
    })
}

fn answer(endpoint: Endpoint) -> Value {
    let object = || json!({"type": "object"});
    let objects = || json!({"type": "array", "items": {"type": "object"}});
    let formats = |json: Value, formats: &[Format]| {
        let content = formats.iter().map(|format| {
            let schema = match format {
                Format::Json => json.clone(),
                Format::JsonLines => json!({"type": "string"}),
                Format::Arrow => json!({"type": "string", "format": "binary"}),
            };
            (format.media_type().to_owned(), json!({ "schema": schema }))
        });
        Value::Object(content.collect())
    };
    let (about, content) = match endpoint {
        Endpoint::Health => ("The gateway runs", formats(object(), &[Format::Json])),
        Endpoint::OpenApi => ("This description", formats(object(), &[Format::Json])),
        Endpoint::Metrics => (
            "Prometheus' text format",
            json!({MEDIA_TYPE: {"schema": {"type": "string"}}}),
        ),
        Endpoint::Roots => ("The roots", formats(objects(), &[Format::Json])),
        Endpoint::Tables => ("The tables", formats(objects(), &[Format::Json])),
        Endpoint::Hosts => ("The hosts", formats(objects(), &[Format::Json])),
        Endpoint::Partitions => ("The partitions", formats(objects(), &[Format::Json])),
        Endpoint::Row => ("The row", formats(object(), &Format::ROWS)),
        Endpoint::Rows => (
            "A row or null for each key, in their order. Arrow has nulls, and a last column \
             `holdfast.found`.",
            formats(
                json!({"type": "array", "items": {"type": ["object", "null"]}}),
                &Format::ROWS,
            ),
        ),
        Endpoint::Changes => (
            "The last change of each row in each epoch: `epoch`, the row's columns, `deleted`",
            formats(objects(), &Format::ROWS),
        ),
        Endpoint::Scan | Endpoint::Versions => ("The rows", formats(objects(), &Format::ROWS)),
    };
    let header = |name: &str| json!({"$ref": format!("#/components/headers/{name}")});
    let mut headers = json!({"Holdfast-Epoch": header("Holdfast-Epoch")});
    if endpoint.shows_rewind() {
        headers["Holdfast-Rewind"] = header("Holdfast-Rewind");
    }
    json!({"description": about, "headers": headers, "content": content})
}
