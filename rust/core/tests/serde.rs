//! Serdes over Arrow arrays: encoding, decoding, changes of schema, damaged bytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Float64Array, Int64Array, LargeBinaryArray, StringArray,
    StructArray,
};
use arrow_schema::{DataType, Field, Fields};
use holdfast_core::ErrorKind;
use holdfast_core::serde::{Scalar, Serde, SerdeSide};
use proptest::prelude::*;

fn fields() -> Fields {
    let inner = Fields::from(vec![
        Field::new("text", DataType::Utf8, true),
        Field::new("flag", DataType::Boolean, true),
    ]);
    vec![
        Field::new("id", DataType::Int64, true),
        Field::new("inner", DataType::Struct(inner), true),
        Field::new_list("list", Field::new_list_field(DataType::Utf8, true), true),
        Field::new("amount", DataType::Decimal128(20, 2), true),
    ]
    .into()
}

fn bytes(array: &ArrayRef) -> Vec<Option<Vec<u8>>> {
    let array = array
        .as_any()
        .downcast_ref::<LargeBinaryArray>()
        .expect("bytes");
    array.iter().map(|row| row.map(<[u8]>::to_vec)).collect()
}

#[test]
fn column_and_scalars_have_the_same_bytes() {
    let serde = Serde::named("float64").expect("known");
    let column: ArrayRef = Arc::new(Float64Array::from(vec![
        Some(-0.0),
        None,
        Some(f64::NAN),
        Some(-1.5),
    ]));
    for side in [SerdeSide::Key, SerdeSide::Value] {
        let encoded = serde
            .encode(std::slice::from_ref(&column), side, "keys")
            .expect("encoded");
        let rows = column
            .as_primitive::<arrow_array::types::Float64Type>()
            .iter();
        let scalars: Vec<_> = rows
            .map(|row| {
                row.map(|float| {
                    serde
                        .encode_scalar(Scalar::Float(float), side)
                        .expect("a float")
                })
            })
            .collect();
        assert_eq!(bytes(&encoded), scalars);
        let decoded = serde
            .decode(&[encoded], side, "keys", None)
            .expect("decoded");
        assert_eq!((decoded.len(), decoded.null_count()), (4, 1));
    }
}

#[test]
fn added_columns_are_null_and_removed_ones_are_skipped() {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let old = Fields::from(vec![
        field("a", DataType::Int64),
        field("gone", DataType::Utf8),
    ]);
    let new = Fields::from(vec![
        field("new", DataType::Float64),
        field("a", DataType::Int64),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![7])),
        Arc::new(StringArray::from(vec!["x"])),
    ];
    let row: ArrayRef = Arc::new(StructArray::new(old.clone(), columns, None));
    let (old, new) = (
        Serde::of_struct(&old).expect("old"),
        Serde::of_struct(&new).expect("new"),
    );
    let data = old.encode_row(&[row], SerdeSide::Value).expect("encoded");
    let read = new.decode_row(&data, SerdeSide::Value).expect("decoded");
    assert!(read.as_struct().column(0).is_null(0));
    assert_eq!(
        read.as_struct()
            .column(1)
            .as_primitive::<arrow_array::types::Int64Type>()
            .value(0),
        7
    );
}

#[test]
fn descriptor_refuses_serdes_that_do_not_fit() {
    let of = |fields: Vec<Field>| Serde::of_struct(&fields.into()).expect("a struct");
    let old = of(vec![Field::new("a", DataType::Int64, true)]);
    let wider = of(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
    ]);
    let strict = of(vec![Field::new("b", DataType::Utf8, false)]);
    let other = of(vec![Field::new("a", DataType::Utf8, true)]);
    let written = old.descriptor();
    for serde in [
        &old,
        &wider,
        &strict,
        &Serde::of_struct(&fields()).expect("a struct"),
        &Serde::named("json").expect("known"),
    ] {
        assert_eq!(
            Serde::of_descriptor(&serde.descriptor())
                .expect("its own")
                .descriptor(),
            serde.descriptor()
        );
    }
    assert!(wider.check_descriptor(&written, SerdeSide::Value).is_ok());
    assert!(old.check_descriptor(&written, SerdeSide::Key).is_ok());
    let message = |serde: &Serde, side| {
        serde
            .check_descriptor(&written, side)
            .expect_err("it does not fit")
            .to_string()
    };
    assert!(
        message(&wider, SerdeSide::Key)
            .contains("its columns were (a: Int64) and are now (a: Int64, b: Utf8)")
    );
    assert!(
        message(&strict, SerdeSide::Value)
            .contains("column b is not in rows that were stored before")
    );
    assert!(
        message(&other, SerdeSide::Value)
            .contains("column a was stored as Int64 and is now asked for as Utf8")
    );
    let int64 = Serde::named("int64").expect("known");
    assert!(
        message(&int64, SerdeSide::Value).contains("serde struct and is now opened with int64")
    );
    assert!(int64.check_descriptor(b"int64", SerdeSide::Key).is_ok());
    assert_eq!(
        int64
            .check_descriptor(b"string", SerdeSide::Key)
            .expect_err("another")
            .kind(),
        ErrorKind::InvalidValue
    );
}

proptest! {
    /// Damaged bytes give an error or other values.
    #[test]
    fn damaged_bytes_never_panic(
        data in prop::collection::vec(any::<u8>(), 0..40),
        cut in 0usize..80,
        flip in any::<(usize, u8)>(),
    ) {
        let serde = Serde::of_struct(&fields()).expect("a struct");
        let empty = arrow_array::new_null_array(&DataType::Struct(fields()), 1);
        let nothing = StructArray::new(fields(), empty.as_struct().columns().to_vec(), None);
        // The head of a real row with random bytes after it; and the same, cut off, with one byte
        // changed.
        let real = serde.encode_row(&[Arc::new(nothing)], SerdeSide::Value).expect("encoded");
        let mut headed = real[..real.len() - 1].to_vec();
        headed.extend_from_slice(&data);
        let mut damaged = headed.clone();
        damaged.truncate(cut.max(1));
        let place = flip.0 % damaged.len();
        damaged[place] ^= flip.1;
        for bytes in [&data, &headed, &damaged] {
            let column: ArrayRef = Arc::new(BinaryArray::from_vec(vec![bytes.as_slice()]));
            for side in [SerdeSide::Key, SerdeSide::Value] {
                let _ = serde.decode(std::slice::from_ref(&column), side, "values", None);
            }
            let _ = serde.check_descriptor(bytes, SerdeSide::Value);
            let _ = Serde::of_descriptor(bytes);
            for name in ["string", "int64", "float64", "bool", "timestamp", "json"] {
                let serde = Serde::named(name).expect("known");
                let _ = serde.decode(std::slice::from_ref(&column), SerdeSide::Key, "values", None);
            }
        }
    }
}
