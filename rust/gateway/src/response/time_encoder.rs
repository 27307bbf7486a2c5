//! Times that no calendar has, as JSON.

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::writer::NullableEncoder;
use arrow_json::{Encoder, EncoderFactory, EncoderOptions};
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};

/// Writes a time or a date beyond the calendar of `chrono`, about 262,000 years around 1970, as its
/// number. Arrow's own encoder would write the text of an error.
#[derive(Debug)]
pub struct TimeEncoders;

impl EncoderFactory for TimeEncoders {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        use DataType::{Date32, Timestamp};
        match array.data_type() {
            Date32 => encoder::<Date32Type>(array),
            Timestamp(TimeUnit::Second, _) => encoder::<TimestampSecondType>(array),
            Timestamp(TimeUnit::Millisecond, _) => encoder::<TimestampMillisecondType>(array),
            Timestamp(TimeUnit::Microsecond, _) => encoder::<TimestampMicrosecondType>(array),
            Timestamp(TimeUnit::Nanosecond, _) => encoder::<TimestampNanosecondType>(array),
            _ => Ok(None),
        }
    }
}

/// An encoder of times, if Arrow's own does not fit one of them.
fn encoder<T: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &dyn Array,
) -> Result<Option<NullableEncoder<'_>>, ArrowError> {
    let times = array.as_primitive::<T>();
    let fits = |time: &T::Native| as_datetime::<T>((*time).into()).is_some();
    if times.values().iter().all(fits) {
        return Ok(None);
    }
    let encoder = TimeEncoder {
        formatter: ArrayFormatter::try_new(array, &FormatOptions::new())?,
        times,
    };
    let nulls = array.nulls().cloned();
    Ok(Some(NullableEncoder::new(Box::new(encoder), nulls)))
}

struct TimeEncoder<'a, T: ArrowPrimitiveType> {
    formatter: ArrayFormatter<'a>,
    times: &'a PrimitiveArray<T>,
}

impl<T: ArrowPrimitiveType<Native: Into<i64>>> Encoder for TimeEncoder<'_, T> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = match self.formatter.value(row).try_to_string() {
            Ok(time) => format!("\"{time}\""),
            Err(_) => self.times.value(row).into().to_string(),
        };
        out.extend_from_slice(text.as_bytes());
    }
}
