//! The bytes of keys: cells as bytes that sort as Spark SQL sorts the values.
//!
//! ```text
//! bool                    00 false, 01 true
//! unsigned integer        big-endian
//! integer, decimal,       big-endian, the sign bit flipped: negative numbers come first
//!   date, timestamp
//! float                   big-endian; negative: all bits flipped; else: the sign bit flipped
//!                         As a key, -0.0 is 0.0; every NaN is 7ff8 0000 0000 0000 (7fc0 0000)
//! string, binary          its bytes; inside a struct every 00 becomes 00 ff, and 00 ends it
//! struct                  field by field: 00 for null, which comes first; else 01 and the cell
//! ```
//!
//! The escape is that of FoundationDB's tuple layer. After the final 00 come 00, 01 or the end of
//! the key, all below ff, so a string sorts before a longer one that starts with it.

use crate::error::{Error, ErrorKind, Result};

/// The order of numbers of a fixed width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As unsigned integers.
    Unsigned,
    /// In two's complement.
    Signed,
    /// As IEEE 754 does, NaN above all.
    Float,
}

const ESCAPE: u8 = 0xff;
/// Begins a field that is null; sorts before all others.
pub const NULL: u8 = 0;
/// Begins a field that has a value.
pub const PRESENT: u8 = 1;

/// Encodes a number (little-endian, as in Arrow) as bytes that sort as numbers do, without loss.
#[inline]
pub fn encode<const N: usize>(mut cell: [u8; N], order: Order) -> [u8; N] {
    cell.reverse();
    match (order, cell[0] & 0x80 != 0) {
        (Order::Unsigned, _) => {}
        (Order::Float, true) => cell = cell.map(|byte| !byte),
        (Order::Signed | Order::Float, _) => cell[0] ^= 0x80,
    }
    cell
}

/// Decodes the bytes of [`encode`] as a number, little-endian.
#[inline]
pub fn decode<const N: usize>(mut cell: [u8; N], order: Order) -> [u8; N] {
    match (order, cell[0] & 0x80 != 0) {
        (Order::Unsigned, _) => {}
        (Order::Float, false) => cell = cell.map(|byte| !byte),
        (Order::Signed | Order::Float, _) => cell[0] ^= 0x80,
    }
    cell.reverse();
    cell
}

/// Returns the one float that represents all floats that Spark treats as equal: 0.0 for both zeros,
/// one NaN for all NaNs.
#[inline]
pub fn one_of_equals(float: f64) -> f64 {
    if float.is_nan() {
        f64::from_bits(0x7ff8_0000_0000_0000)
    } else {
        float + 0.0
    }
}

/// Returns the same as [`one_of_equals`] for 32 bits.
#[inline]
pub fn one_of_equals_f32(float: f32) -> f32 {
    if float.is_nan() {
        f32::from_bits(0x7fc0_0000)
    } else {
        float + 0.0
    }
}

/// Appends the bytes of a number of any width.
#[inline]
pub fn put_number(out: &mut Vec<u8>, cell: &[u8], order: Order, as_key: bool) {
    match (cell.len(), order) {
        (4, Order::Float) if as_key => put::<4>(
            out,
            &one_of_equals_f32(f32::from_le_bytes(array(cell))).to_le_bytes(),
            order,
        ),
        (8, Order::Float) if as_key => put::<8>(
            out,
            &one_of_equals(f64::from_le_bytes(array(cell))).to_le_bytes(),
            order,
        ),
        (1, _) => put::<1>(out, cell, order),
        (2, _) => put::<2>(out, cell, order),
        (4, _) => put::<4>(out, cell, order),
        (8, _) => put::<8>(out, cell, order),
        _ => put::<16>(out, cell, order),
    }
}

#[inline]
fn put<const N: usize>(out: &mut Vec<u8>, cell: &[u8], order: Order) {
    out.extend_from_slice(&encode::<N>(array(cell), order));
}

/// Decodes ordered bytes of any width as a number, little-endian, at the front of the buffer.
#[inline]
pub fn number(cell: &[u8], order: Order) -> [u8; 16] {
    let mut number = [0; 16];
    match cell.len() {
        1 => number[..1].copy_from_slice(&decode::<1>(array(cell), order)),
        2 => number[..2].copy_from_slice(&decode::<2>(array(cell), order)),
        4 => number[..4].copy_from_slice(&decode::<4>(array(cell), order)),
        8 => number[..8].copy_from_slice(&decode::<8>(array(cell), order)),
        _ => number = decode::<16>(array(cell), order),
    }
    number
}

/// Copies a cell, which has the width of its type.
#[inline]
fn array<const N: usize>(cell: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    let width = N.min(cell.len());
    array[..width].copy_from_slice(&cell[..width]);
    array
}

/// Appends bytes that other fields follow.
pub fn put_escaped(out: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(zero) = bytes.iter().position(|byte| *byte == 0) {
        out.extend_from_slice(&bytes[..=zero]);
        out.push(ESCAPE);
        bytes = &bytes[zero + 1..];
    }
    out.extend_from_slice(bytes);
    out.push(0);
}

/// Takes escaped bytes from the front of `input` into `out`.
pub fn take_escaped(input: &mut &[u8], out: &mut Vec<u8>) -> Result<()> {
    loop {
        let zero = input
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| too_short("a string has no end"))?;
        out.extend_from_slice(&input[..zero]);
        *input = &input[zero + 1..];
        match input.split_first() {
            Some((&ESCAPE, rest)) => {
                out.push(0);
                *input = rest;
            }
            _ => return Ok(()),
        }
    }
}

/// Takes `count` bytes from the front of `input`.
#[inline]
pub fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (head, rest) = input
        .split_at_checked(count)
        .ok_or_else(|| too_short("it ends in the middle of a cell"))?;
    *input = rest;
    Ok(head)
}

fn too_short(why: &str) -> Error {
    Error::new(ErrorKind::Serialization, why)
}
