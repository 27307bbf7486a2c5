//! A buffer with frozen layers and readers, compared with a map.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn rows(buffer: &mut TableBuffer) -> Rows {
    let mut rows = Vec::new();
    let Ok(()) = buffer.for_each_newest(|staged| {
        rows.push((staged.key.to_vec(), staged.value.map(<[u8]>::to_vec)));
        Ok::<(), Infallible>(())
    });
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
    rows.into_iter().collect()
}

proptest! {
    #[test]
    fn buffer_matches_map_and_views_are_repeatable(
        ops in prop::collection::vec((prop::collection::vec(0u8..3, 0..5),
            prop::option::of(0usize..3_000), 0u8..8), 0..80),
        end in 0u8..3,
    ) {
        let mut buffer = TableBuffer::new(7, 0, None);
        let mut model = Rows::new();
        let mut views = Vec::new();
        for (n, (key, value, kind)) in ops.into_iter().enumerate() {
            let value = value.map(|len| vec![n as u8; len]);
            let parts = value.as_ref().map(|value| [value.as_slice()]);
            buffer.push(&[&key], parts.as_ref().map(|v| v.as_slice()), false);
            model.insert(key.clone(), value);
            match kind {
                0 => views.push((buffer.reader(), model.clone())),
                1 => drop(buffer.reader()),
                2 => drop(views.pop()),
                3 => prop_assert_eq!(&rows(&mut buffer), &model),
                4 => {
                    let mut ordered = Vec::new();
                    let Ok(()) = buffer.in_order(|staged, _| {
                        ordered.push((staged.key.to_vec(), staged.value.map(<[u8]>::to_vec)));
                        Ok::<(), Infallible>(())
                    });
                    prop_assert_eq!(ordered, model.clone().into_iter().collect::<Vec<_>>());
                }
                _ => {}
            }
            buffer.catch_up();
            let found = buffer.find(&key).map(|staged| staged.value.map(<[u8]>::to_vec));
            prop_assert_eq!(found.as_ref(), model.get(&key));
        }
        let mut ended = Vec::new();
        match end {
            0 => buffer.drain_in_order(|staged, _| {
                ended.push((staged.key.to_vec(), staged.value.map(<[u8]>::to_vec)));
            }),
            1 => {
                let layer = buffer.take();
                for entry in layer.iter().flat_map(|layer| layer.run()) {
                    let (key, value) = layer.as_ref().expect("a layer").row(entry.record());
                    ended.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                }
            }
            _ => {
                ended.extend(rows(&mut buffer));
                buffer.clear_all();
            }
        }
        prop_assert_eq!(ended, model.into_iter().collect::<Vec<_>>());
        prop_assert!(buffer.is_empty());
        for (mut view, model) in views {
            prop_assert_eq!(rows(&mut view), model);
        }
    }
}

#[test]
fn emptied_buffer_keeps_its_memory_for_all_tables() {
    let spare = SpareChunks::default();
    let count = || {
        let chunks: Vec<_> = std::iter::from_fn(|| spare.take()).collect();
        let count = chunks.len();
        chunks.into_iter().for_each(|chunk| spare.add(chunk));
        count
    };
    let value = vec![1; 100_000];
    let fill = |buffer: &mut TableBuffer| {
        for n in 0..50u8 {
            buffer.push(&[&[n]], Some(&[&value]), false);
        }
    };
    let new = |family: u32| TableBuffer::new(family, 0, Some(spare.clone()));
    let (mut first, mut second) = (new(7), new(8));
    fill(&mut first);
    let Ok(()) = first.in_order(|_, _| Ok::<(), Infallible>(()));
    first.clear_all();
    assert!(first.is_empty());
    let kept = count();
    assert!(kept >= 4, "{kept} chunks of 1 MiB");
    fill(&mut second);
    assert_eq!(count(), 0);

    // A reader's records are not written over.
    let mut view = second.reader();
    second.clear_all();
    assert_eq!(count(), 0);
    fill(&mut first);
    assert_eq!(rows(&mut view).len(), 50);
    assert!(
        rows(&mut view)
            .values()
            .all(|row| row.as_ref() == Some(&value))
    );
}
