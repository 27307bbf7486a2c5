//! Times as text.

use arrow_array::timezone::Tz;
use arrow_cast::parse::string_to_datetime;
use arrow_schema::TimeUnit;

/// Parses epoch microseconds, or a time with its zone.
///
/// # Errors
/// A text that describes what is wrong.
pub fn micros(text: &str) -> Result<i64, String> {
    units(text, TimeUnit::Microsecond, true)
}

/// Parses a number of units since 1970, or a time, which has a zone if `with_zone`.
///
/// # Errors
/// A text that describes what is wrong.
pub fn units(text: &str, unit: TimeUnit, with_zone: bool) -> Result<i64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let (name, most_digits) = match unit {
        TimeUnit::Second => ("seconds", 0),
        TimeUnit::Millisecond => ("milliseconds", 3),
        TimeUnit::Microsecond => ("microseconds", 6),
        TimeUnit::Nanosecond => ("nanoseconds", 9),
    };
    let example = if with_zone {
        "with its zone (2026-03-01T09:00:00Z; + is %2B in an address)"
    } else {
        "without a zone (2026-03-01T09:00:00)"
    };
    let wrong = |what: &str| format!("{text:?} {what}: give a time {example}, or epoch {name}");
    let clock = text
        .split_once(['T', 't', ' '])
        .map_or("", |(_, clock)| clock);
    // A zone is an offset or a name, such as Europe/Berlin.
    let of_zone = |c: char| c.is_ascii_alphabetic() || c == '+' || c == '-';
    if clock.contains(of_zone) != with_zone {
        return Err(wrong(if with_zone {
            "has no time zone"
        } else {
            "has a time zone, and the column has none"
        }));
    }
    let fraction = text.split_once('.').map_or("", |(_, behind)| behind);
    let end = fraction
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(fraction.len());
    if fraction[..end].trim_end_matches('0').len() > most_digits {
        return Err(wrong(&format!("has more than {name}")));
    }
    let utc: Tz = "UTC".parse().map_err(|error| format!("UTC: {error}"))?;
    let time =
        string_to_datetime(&utc, text).map_err(|error| wrong(&format!("is no time ({error})")))?;
    match unit {
        TimeUnit::Second => Some(time.timestamp()),
        TimeUnit::Millisecond => Some(time.timestamp_millis()),
        TimeUnit::Microsecond => Some(time.timestamp_micros()),
        TimeUnit::Nanosecond => time.timestamp_nanos_opt(),
    }
    .ok_or_else(|| wrong("is too far from 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_zone() {
        assert_eq!(micros("1767225600000000"), Ok(1_767_225_600_000_000));
        assert_eq!(micros("-1"), Ok(-1));
        assert_eq!(micros("2026-01-01T00:00:00Z"), Ok(1_767_225_600_000_000));
        assert_eq!(
            micros("2026-01-01 01:00:00.000001+01:00"),
            Ok(1_767_225_600_000_001)
        );
        for wrong in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00 01:00",
            "yesterdaZ",
            "2026-01-01T00:00:00.0000009Z",
        ] {
            assert!(micros(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_fit_the_unit_and_the_zone_of_their_column() {
        let seconds = |text| units(text, TimeUnit::Second, false);
        assert_eq!(seconds("1970-01-01T00:00:02"), Ok(2));
        assert_eq!(seconds("1970-01-01 00:00:02.000"), Ok(2));
        assert!(seconds("1970-01-01T00:00:02.5").is_err());
        assert!(seconds("1970-01-01T00:00:02Z").is_err());
        assert!(seconds("1970-01-01T00:00:02 Europe/Berlin").is_err());
        let nanos = |text| units(text, TimeUnit::Nanosecond, true);
        assert_eq!(nanos("1970-01-01T00:00:00.000000001Z"), Ok(1));
        assert!(nanos("1500-01-01T00:00:00Z").is_err());
    }
}
