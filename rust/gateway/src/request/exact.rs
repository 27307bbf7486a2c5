//! Values that a key column holds exactly.

use arrow_schema::{DataType, Field};
use serde_json::Value;

use super::moment;
use crate::problem::Problem;

/// How many decimal digits a float always retains.
const FLOAT_DIGITS: u8 = 15;

/// The longest text of a decimal, in bytes. The Arrow parser counts digits up to 255 only.
const DECIMAL_BYTES: usize = 128;

/// The least float that no integer of the JSON parser equals: 2^63.
const BEYOND_64_BITS: f64 = 9_223_372_036_854_775_808.0;

/// Checks that the type of a column holds a value exactly, in structs and lists, too. Otherwise
/// another key would be read.
///
/// # Errors
/// A problem names the column.
pub fn exact(field: &Field, value: Value) -> Result<Value, Problem> {
    match (field.data_type(), value) {
        (DataType::Struct(members), Value::Object(mut values)) => {
            let exact_values = members.iter().map(|member| {
                let name = member.name();
                let value = values.remove(name).ok_or_else(|| {
                    Problem::value(format!("key column {}: no member {name:?}", field.name()))
                })?;
                Ok((name.clone(), exact(member, value)?))
            });
            let exact_values = exact_values.collect::<Result<_, Problem>>()?;
            match values.keys().next() {
                Some(name) => Err(Problem::value(format!(
                    "key column {} has no member {name:?}",
                    field.name()
                ))),
                None => Ok(Value::Object(exact_values)),
            }
        }
        (DataType::List(item), Value::Array(items)) => {
            let items = items.into_iter().map(|value| exact(item, value));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        (_, value) => exact_scalar(field, value),
    }
}

fn exact_scalar(field: &Field, value: Value) -> Result<Value, Problem> {
    let kind = field.data_type();
    match (kind, &value) {
        // A column without a zone (Spark's TIMESTAMP_NTZ) has times without a zone.
        (DataType::Timestamp(unit, zone), Value::String(text)) => {
            let number = moment::units(text, *unit, zone.is_some())
                .map_err(|error| not_such(field, text, &error))?;
            Ok(number.into())
        }
        // The JSON parser has read the number as a float.
        (DataType::Decimal128(precision, _), Value::Number(number))
            if *precision > FLOAT_DIGITS && number.is_f64() =>
        {
            Err(not_such(field, &number.to_string(), "give it as a string"))
        }
        (DataType::Decimal128(_, scale), Value::String(_) | Value::Number(_)) => {
            let text = text_of(&value);
            if text.len() > DECIMAL_BYTES {
                return Err(not_such(field, &text, "too many digits"));
            }
            let digits = text.split_once('.').map_or("", |(_, digits)| digits);
            let digits = digits.trim_end_matches('0').len();
            if text.contains(['e', 'E']) {
                return Err(not_such(
                    field,
                    &text,
                    "write it without an exponent, as a string",
                ));
            }
            if digits > usize::try_from(*scale).unwrap_or(0) {
                return Err(not_such(field, &text, "too many digits behind the point"));
            }
            if !text.contains(|c: char| c.is_ascii_digit()) {
                return Err(not_such(field, &text, "it has no digits"));
            }
            Ok(Value::String(text))
        }
        // The Arrow parser ignores the last of an odd number of digits.
        (DataType::Binary, Value::String(text)) if text.len() % 2 != 0 => Err(not_such(
            field,
            text,
            "give two hexadecimal digits for each byte",
        )),
        // A longer text would be cut to its date.
        (DataType::Date32, Value::String(text)) if text.len() != "2026-03-01".len() => {
            Err(not_such(field, text, "give a date as 2026-03-01"))
        }
        // Spark has no unsigned numbers.
        (_, Value::Number(number))
            if (kind.is_integer() || kind.is_temporal()) && !number.is_i64() =>
        {
            Err(not_such(
                field,
                &number.to_string(),
                "no whole number of 64 bits",
            ))
        }
        (DataType::Float64 | DataType::Float32, Value::Number(_) | Value::String(_))
            if !fits_float(kind, &value) =>
        {
            let text = text_of(&value);
            Err(not_such(
                field,
                &text,
                "a float does not hold it exactly; give a number beyond 64 bits as a string with \
                 an exponent",
            ))
        }
        _ => Ok(value),
    }
}

/// The digits of a number, or a string without its quotes.
fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a float column holds a whole number exactly. A number with a point is the nearest float.
fn fits_float(kind: &DataType, value: &Value) -> bool {
    let whole: Option<i128> = match value {
        // The JSON parser reads a whole number beyond 64 bits as a float, without its last digits.
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.abs() >= BEYOND_64_BITS => return false,
            _ => number.as_i128(),
        },
        _ => {
            let text = value.as_str().unwrap_or_default();
            let digits = text.trim().trim_start_matches(['+', '-']);
            // The Arrow parser reads a number beyond the range as infinity.
            if digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
                && is_infinite(kind, text.trim())
            {
                return false;
            }
            let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            match text.trim().parse() {
                Err(_) if is_whole => return false,
                parsed => parsed.ok(),
            }
        }
    };
    let digits = match kind {
        DataType::Float32 => f32::MANTISSA_DIGITS,
        _ => f64::MANTISSA_DIGITS,
    };
    let whole = whole.unwrap_or_default().unsigned_abs();
    let odd_part = whole
        .checked_shr(whole.trailing_zeros())
        .unwrap_or_default();
    u128::BITS - odd_part.leading_zeros() <= digits
}

/// Whether a text is infinity as a value of a float column.
fn is_infinite(kind: &DataType, text: &str) -> bool {
    match kind {
        DataType::Float32 => text.parse().is_ok_and(f32::is_infinite),
        _ => text.parse().is_ok_and(f64::is_infinite),
    }
}

/// The problem of a text that a key column does not hold.
pub fn not_such(field: &Field, text: &str, why: &str) -> Problem {
    let (name, kind) = (field.name(), field.data_type());
    Problem::value(format!(
        "key column {name} is {kind}, and {text:?} is not: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn a_decimal_column_takes_no_text_whose_digits_the_parser_cannot_count() {
        let field = Field::new("d", DataType::Decimal128(20, 0), true);
        assert!(exact(&field, "123".into()).is_ok());
        let long = format!("1{}", "0".repeat(256));
        for wrong in [long.as_str(), "", "-", ".", "-."] {
            assert!(exact(&field, wrong.into()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_binary_column_takes_whole_bytes() {
        let field = Field::new("b", DataType::Binary, true);
        assert!(exact(&field, "00ff".into()).is_ok());
        assert!(exact(&field, "00f".into()).is_err());
    }

    #[test]
    fn a_column_of_integers_or_times_takes_numbers_of_64_bits() {
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        for kind in [DataType::Int64, time] {
            let field = Field::new("n", kind, true);
            assert!(exact(&field, i64::MAX.into()).is_ok(), "{field}");
            assert!(exact(&field, (1_u64 << 63).into()).is_err(), "{field}");
        }
    }

    #[test]
    fn a_float_column_takes_numbers_that_it_does_not_round() {
        let field = Field::new("d", DataType::Float64, true);
        let takes = |json: &str| {
            let value: Value = serde_json::from_str(json).expect("JSON");
            exact(&field, value).is_ok()
        };
        for json in [
            "1",
            "-2.5",
            "0.1",
            "9007199254740992",
            "\"1e300\"",
            "\"-7\"",
            "1e15",
            "\"-Infinity\"",
            "\"inf\"",
        ] {
            assert!(takes(json), "{json}");
        }
        for json in [
            "9007199254740993",
            "18446744073709551617",
            "1e300",
            "-18446744073709551617",
            "\"9007199254740993\"",
            "\"340282366920938463463374607431768211457\"",
            "\"-340282366920938463463374607431768211457\"",
            "\"1e309\"",
            "\" -.1e310\"",
        ] {
            assert!(!takes(json), "{json}");
        }
        let narrow = Field::new("f", DataType::Float32, true);
        assert!(exact(&narrow, "1e38".into()).is_ok());
        assert!(exact(&narrow, "1e39".into()).is_err());
    }
}
