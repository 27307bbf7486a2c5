//! Times as text.

use arrow_array::timezone::Tz;
use arrow_cast::parse::string_to_datetime;

/// Parses epoch microseconds, or a time with its zone.
///
/// # Errors
/// A text that describes what is wrong.
pub fn micros(text: &str) -> Result<i64, String> {
    if let Ok(micros) = text.parse() {
        return Ok(micros);
    }
    let advice = "give a time with its zone (2026-03-01T09:00:00Z; + is %2B in an address), or \
                  epoch microseconds";
    let clock = text
        .split_once(['T', 't', ' '])
        .map_or("", |(_, clock)| clock);
    if !clock.contains(['Z', 'z', '+', '-']) {
        return Err(format!("{text:?} has no time zone: {advice}"));
    }
    let fraction = text.split_once('.').map_or("", |(_, behind)| behind);
    let digits = fraction.chars().take_while(char::is_ascii_digit).count();
    if digits > 6 {
        return Err(format!("{text:?} has more than microseconds: {advice}"));
    }
    let utc: Tz = "UTC".parse().map_err(|error| format!("UTC: {error}"))?;
    string_to_datetime(&utc, text)
        .map(|time| time.timestamp_micros())
        .map_err(|error| format!("{text:?} is no time ({error}): {advice}"))
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
}
