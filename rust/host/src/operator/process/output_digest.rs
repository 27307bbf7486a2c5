//! The digest of a processor's output. The client computes it in the worker, where the output is.

use arrow_array::RecordBatch;
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use crate::codec::row::RowCodec;
use crate::protocol::Digest;

/// The digest of the output so far, in order.
#[derive(Default)]
pub struct OutputDigest {
    /// The codec of the first batch's columns. All later batches must have the same columns.
    codec: Option<RowCodec>,
    hasher: Xxh3Default,
    rows: u64,
}

impl OutputDigest {
    /// Adds a batch; the digest does not depend on where rows are cut into batches.
    ///
    /// # Errors
    /// `InvalidType` names a column that cannot be encoded; `Serialization` for columns other than
    /// the first batch's.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let codec = match self.codec.take() {
            Some(codec) => codec,
            None => RowCodec::new(batch.schema_ref().fields().iter().map(AsRef::as_ref))?,
        };
        let rows = self.codec.insert(codec).encode(batch.columns())?;
        for row in 0..batch.num_rows() {
            let row = rows.get(row);
            self.hasher.update(&(row.len() as u64).to_be_bytes());
            self.hasher.update(row);
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The digest.
    pub fn digest(&self) -> Digest {
        Digest::from_hasher(&self.hasher)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};

    use super::*;

    fn digest(batches: &[&[&str]]) -> (Digest, u64) {
        let mut output = OutputDigest::default();
        for words in batches {
            let column: ArrayRef = Arc::new(StringArray::from(words.to_vec()));
            output
                .add(&RecordBatch::try_from_iter([("w", column)]).expect("one column"))
                .expect("encoded");
        }
        (output.digest(), output.rows())
    }

    #[test]
    fn the_digest_depends_on_rows_and_their_order_but_not_on_batches() {
        assert_eq!(
            digest(&[&["a", "b"], &["c"]]),
            digest(&[&["a"], &[], &["b", "c"]])
        );
        assert_ne!(digest(&[&["a", "b"]]), digest(&[&["b", "a"]]));
        assert_ne!(digest(&[&["a"]]), digest(&[&["a", ""]]));
    }
}
