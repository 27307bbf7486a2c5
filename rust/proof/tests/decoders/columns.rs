//! Columns as rows of bytes: keys, payloads, the states of groups.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use fastrand::Rng;
use holdfast_host::codec::evolving_row::PayloadCodec;
use holdfast_host::codec::row::RowCodec;

use crate::feed::{bytes, feed_made, rng, text, times};

const ROWS: usize = 20;

/// Rows with a column of each of nine Spark types, with nulls.
pub fn batch(rng: &mut Rng) -> RecordBatch {
    let long = |rng: &mut Rng| rng.bool().then(|| rng.i64(..));
    let longs: Int64Array = (0..ROWS).map(|_| long(rng)).collect();
    let doubles: Float64Array = (0..ROWS)
        .map(|_| rng.bool().then(|| f64::from_bits(rng.u64(..))))
        .collect();
    let texts: StringArray = (0..ROWS)
        .map(|_| rng.bool().then(|| text(rng, 50)))
        .collect();
    let binaries: BinaryArray = (0..ROWS)
        .map(|_| rng.bool().then(|| bytes(rng, 50)))
        .collect();
    let flags: BooleanArray = (0..ROWS).map(|_| rng.bool().then(|| rng.bool())).collect();
    let times: TimestampMicrosecondArray = (0..ROWS).map(|_| long(rng)).collect();
    let amounts: Decimal128Array = (0..ROWS)
        .map(|_| rng.bool().then(|| rng.i128(-99_999..100_000)))
        .collect();
    let items = |rng: &mut Rng| (0..rng.usize(..4)).map(|_| long(rng)).collect::<Vec<_>>();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..ROWS).map(|_| rng.bool().then(|| items(rng))),
    );
    let inner: [(&str, ArrayRef, bool); 2] = [
        ("a", Arc::new(longs.clone()), true),
        ("b", Arc::new(texts.clone()), true),
    ];
    let structs =
        StructArray::from(RecordBatch::try_from_iter_with_nullable(inner).expect("two columns"));
    let columns: [(&str, ArrayRef, bool); 9] = [
        ("long", Arc::new(longs), true),
        ("double", Arc::new(doubles), true),
        ("text", Arc::new(texts), true),
        ("binary", Arc::new(binaries), true),
        ("flag", Arc::new(flags), true),
        ("time", Arc::new(times.with_timezone("UTC")), true),
        (
            "amount",
            Arc::new(amounts.with_precision_and_scale(12, 2).expect("it fits")),
            true,
        ),
        ("list", Arc::new(lists), true),
        ("struct", Arc::new(structs), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

#[test]
fn decoding_rows_never_panics() {
    let batch = batch(&mut rng(2));
    let codec = RowCodec::new(batch.schema_ref().fields().iter().map(|field| &**field))
        .expect("supported types");
    let encoded = codec.encode(batch.columns()).expect("encoded");
    let made: Vec<Vec<u8>> = (0..ROWS).map(|row| encoded.get(row).to_vec()).collect();
    assert_eq!(
        codec
            .decode(made.iter().map(|row| Some(row.as_slice())))
            .expect("decoded"),
        batch.columns()
    );
    feed_made("row", made, times(5_000), |bytes| {
        let Ok(columns) = codec.decode([Some(bytes)]) else {
            return;
        };
        let again = codec.encode(&columns).expect("encoded again");
        assert_eq!(
            codec.decode([Some(again.get(0))]).expect("decoded again"),
            columns
        );
    });
}

#[test]
fn decoding_payloads_never_panics() {
    let batch = batch(&mut rng(3));
    let (columns, fields) = (
        batch.columns(),
        batch
            .schema_ref()
            .fields()
            .iter()
            .map(|field| (**field).clone())
            .collect::<Vec<_>>(),
    );
    // Columns are added and removed.
    let versions = [fields[..4].to_vec(), fields.clone(), fields[2..].to_vec()];
    let codec = |version: u16| {
        let mut codec =
            PayloadCodec::new(&versions[usize::from(version)]).expect("supported types");
        codec
            .set_versions(version, &versions)
            .expect("supported types");
        codec
    };
    let made = |version: u16, columns: &[ArrayRef]| -> Vec<Vec<u8>> {
        let encoded = codec(version).encode(columns, ROWS).expect("encoded");
        (0..ROWS).map(|row| encoded.get(row).to_vec()).collect()
    };
    let (old, now, new) = (
        made(0, &columns[..4]),
        made(1, columns),
        made(2, &columns[2..]),
    );
    let codec = codec(1);
    assert_eq!(
        codec
            .decode(now.iter().map(|row| Some(row.as_slice())))
            .expect("decoded"),
        columns
    );
    let beside = now[0].clone();
    feed_made("payload", [old, now, new].concat(), times(5_000), |bytes| {
        // The bytes are decoded beside a valid row, because all rows are decoded into the same
        // columns.
        let Ok(columns) = codec.decode([Some(bytes), None, Some(beside.as_slice())]) else {
            return;
        };
        let again = codec.encode(&columns, 3).expect("encoded again");
        assert_eq!(
            codec
                .decode((0..3).map(|row| Some(again.get(row))))
                .expect("decoded again"),
            columns
        );
    });
}
