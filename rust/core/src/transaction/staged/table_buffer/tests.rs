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
        let mut buffer = TableBuffer::new(7, 0);
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
