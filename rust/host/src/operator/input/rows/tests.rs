//! The rows of a session whose host ends.

use arrow_array::{ArrayRef, BooleanArray, Int32Array, StringArray, TimestampMicrosecondArray};

use super::*;

#[test]
fn a_sort_ends_with_the_host() {
    let columns: [(&str, ArrayRef); 5] = [
        ("pid", Arc::new(Int32Array::from(vec![0, 0]))),
        ("side", Arc::new(BooleanArray::from(vec![true, true]))),
        ("deleted", Arc::new(BooleanArray::from(vec![None, None]))),
        ("t", Arc::new(TimestampMicrosecondArray::from(vec![2, 1]))),
        ("k0", Arc::new(StringArray::from(vec!["a", "b"]))),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("five columns");
    let spec = serde_json::from_str(r#"{"keys": ["k"], "left": []}"#).expect("settings");
    let layout = InputLayout::new("test", &spec, &batch.schema()).expect("fits");
    let folder = tempfile::tempdir().expect("a folder");
    let intake = Intake {
        partition: None,
        // Each batch becomes a sorted run.
        memory: Budget::new(0),
        folder: folder.path().to_owned(),
        cancellation: Cancellation::default(),
    };
    let (mut rows, mut counts) = (InputRows::new(layout), Counts::default());
    let mut push = |rows: &mut InputRows| rows.push(batch.clone(), &intake, &mut counts);
    push(&mut rows).expect("spills");
    push(&mut rows).expect("spills");
    intake.cancellation.cancel();
    let error = push(&mut rows).expect_err("the host ends");
    assert_eq!(error.kind(), ErrorKind::StoreClosed);
    let merged = rows.next_part(RowOrder::All, &mut Counts::default());
    let error = merged.expect_err("the host ends");
    assert_eq!(error.kind(), ErrorKind::StoreClosed);
}
