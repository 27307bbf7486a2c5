//! The parameters that a request has.

use std::time::Duration;

use holdfast_host::protocol::{Epoch, IsolationLevel};
use holdfast_host::reader::{Offline, ReadFrom};

use super::moment;
use super::parameter::{
    AT_LEAST, EPOCH, ISOLATION_LEVEL, Parameter, ParameterKind, STALE_OK, TIMEOUT,
};
use crate::problem::Problem;

/// The parameters of a request. All of them are parameters of its route.
#[derive(Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Parses a query; `known` are the route's parameters.
    ///
    /// # Errors
    /// A problem names the parameter that is unknown, comes twice or has a wrong value.
    pub fn parse(query: Option<&str>, known: &[&Parameter]) -> Result<Self, Problem> {
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let Some(parameter) = known.iter().find(|parameter| parameter.name == name) else {
                let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
                let text = format!("there is no parameter {name:?}; there are {names:?}");
                return Err(Problem::value(text));
            };
            if !parameter.repeats && found.iter().any(|(other, _)| *other == name) {
                return Err(Problem::value(format!("{name} may come only once")));
            }
            let mut value = value.into_owned();
            if let ParameterKind::OneOf(values) = parameter.kind {
                value.make_ascii_lowercase();
                if !values.contains(&value.as_str()) {
                    let text = format!("{name} is {value:?}: give one of {values:?}");
                    return Err(Problem::value(text));
                }
            }
            found.push((name.into_owned(), value));
        }
        Ok(Self(found))
    }

    /// The value of a parameter.
    pub fn text(&self, parameter: &Parameter) -> Option<&str> {
        let mut found = self.0.iter();
        found
            .find(|(name, _)| name == parameter.name)
            .map(|(_, value)| value.as_str())
    }

    /// All values of a parameter; none if it is not given.
    pub fn all(&self, parameter: &Parameter) -> Option<Vec<String>> {
        let found = self.0.iter().filter(|(name, _)| name == parameter.name);
        let values: Vec<String> = found.map(|(_, value)| value.clone()).collect();
        (!values.is_empty()).then_some(values)
    }

    /// A number that is not negative.
    ///
    /// # Errors
    /// A problem if it is no such number.
    pub fn count(&self, parameter: &Parameter) -> Result<Option<u64>, Problem> {
        let count = |text: &str| {
            let parsed = text.parse::<u64>().ok();
            parsed
                .filter(|count| i64::try_from(*count).is_ok())
                .ok_or_else(|| {
                    let name = parameter.name;
                    Problem::value(format!(
                        "{name} is {text:?}: give a number that is not negative"
                    ))
                })
        };
        self.text(parameter).map(count).transpose()
    }

    /// A time, in epoch microseconds.
    ///
    /// # Errors
    /// A problem if it is not a time.
    pub fn moment(&self, parameter: &Parameter) -> Result<Option<i64>, Problem> {
        let parse = |text| {
            moment::micros(text)
                .map_err(|error| Problem::value(format!("{}: {error}", parameter.name)))
        };
        self.text(parameter).map(parse).transpose()
    }

    /// Which state to read.
    ///
    /// # Errors
    /// A problem names the parameter that is wrong.
    pub fn read_from(&self, offline: Offline, longest: Duration) -> Result<ReadFrom, Problem> {
        let epoch = |parameter| -> Result<Option<Epoch>, Problem> {
            let count = self.count(parameter)?;
            Ok(count.and_then(|count| i64::try_from(count).ok()).map(Epoch))
        };
        let timeout = match self.text(&TIMEOUT) {
            Some(text) => {
                let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
                let seconds = seconds
                    .and_then(Result::ok)
                    .ok_or_else(|| Problem::value(format!("timeout is {text:?}: give seconds")))?;
                seconds.min(longest)
            }
            None => longest,
        };
        Ok(ReadFrom {
            exactly: epoch(&EPOCH)?,
            at_least: epoch(&AT_LEAST)?,
            timeout,
            offline,
            isolation_level: self.text(&ISOLATION_LEVEL).map(|level| match level {
                "read_uncommitted" => IsolationLevel::ReadUncommitted,
                _ => IsolationLevel::ReadCommitted,
            }),
            stale_ok: self.text(&STALE_OK) == Some("true"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameter::{COLUMNS, LIMIT};
    use super::*;

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let known = [&LIMIT, &COLUMNS];
        let params = Params::parse(Some("limit=5&columns=a&columns=b%26c"), &known);
        let params = params.expect("known parameters");
        assert_eq!(params.count(&LIMIT).expect("a number"), Some(5));
        let columns = params.all(&COLUMNS).expect("given");
        assert_eq!(columns, ["a", "b&c"]);
        for wrong in ["limt=5", "limit=5&limit=5", "as_of=1"] {
            assert!(Params::parse(Some(wrong), &known).is_err(), "{wrong}");
        }
        for wrong in ["limit=-1", "limit=", "limit=18446744073709551615"] {
            let params = Params::parse(Some(wrong), &known).expect("known");
            assert!(params.count(&LIMIT).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_request_waits_longer_than_the_limit() {
        let wait = |query| {
            let params = Params::parse(Some(query), &[&TIMEOUT]).expect("known");
            params
                .read_from(Offline::Never, Duration::from_secs(5))
                .map(|from| from.timeout)
        };
        assert_eq!(wait("timeout=0.5").expect("seconds").as_millis(), 500);
        assert_eq!(wait("timeout=99").expect("seconds").as_secs(), 5);
        assert_eq!(wait("").expect("seconds").as_secs(), 5);
        for wrong in ["timeout=-1", "timeout=x", "timeout=NaN"] {
            assert!(wait(wrong).is_err(), "{wrong}");
        }
    }
}
