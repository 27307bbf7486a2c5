//! Layers, active and frozen, compared with a map.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One of few keys of 8 bytes or more.
fn long_key() -> impl Strategy<Value = Vec<u8>> {
    let parts = (prop::collection::vec(0u8..3, 0..3), 0u8..3);
    parts.prop_map(|(part, time)| [part.as_slice(), &[0; 7], &[time]].concat())
}

proptest! {
    #[test]
    fn layer_matches_map(ops in prop::collection::vec((prop::collection::vec(0u8..3,
        0..11), prop::option::of(0u8..9), 0u8..4), 0..200)) {
        let mut layer = Layer::new(7, 0);
        let mut model: BTreeMap<Vec<u8>, Option<u8>> = BTreeMap::new();
        for (key, value, ask) in ops {
            let bytes = value.map(|v| [v]);
            layer.push(&[&key], bytes.as_ref().map(|v| [v.as_slice()]).as_ref()
                .map(|v| v.as_slice()), false);
            model.insert(key.clone(), value);
            if ask == 0 {
                layer.catch_up();
                let found = layer.find(&key).map(|n| layer.value(n).map(|v| v[0]));
                prop_assert_eq!(found, model.get(&key).copied());
            }
            if ask == 1 {
                layer.order();
                let after = layer.at_or_after(&key[..key.len() / 2])
                    .map(|n| (layer.key(n).to_vec(), layer.value(n).map(|v| v[0])));
                let expected = model.range(key[..key.len() / 2].to_vec()..).next()
                    .map(|(k, v)| (k.clone(), *v));
                prop_assert_eq!(after, expected);
                let before = layer.before(&key)
                    .map(|n| (layer.key(n).to_vec(), layer.value(n).map(|v| v[0])));
                let expected = model.range(..key.clone()).next_back()
                    .map(|(k, v)| (k.clone(), *v));
                prop_assert_eq!(before, expected);
            }
        }
        let rows = |order: &[u32]| -> Vec<_> { order.iter()
            .map(|n| (layer.key(*n).to_vec(), layer.value(*n).map(|v| v[0]))).collect() };
        prop_assert_eq!(rows(&layer.commit_order()), model.clone()
            .into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn frozen_layer_matches_map(
        rows in prop::collection::vec((prop::collection::vec(0u8..3, 0..11),
            prop::option::of(0u8..9)), 0..100),
        ordered_at in prop::option::of(0usize..100),
        asked in prop::collection::vec(prop::collection::vec(0u8..3, 0..11), 10),
        run_first in any::<bool>(),
    ) {
        let mut layer = Layer::new(7, 0);
        let mut model: BTreeMap<Vec<u8>, Option<u8>> = BTreeMap::new();
        for (n, (key, value)) in rows.into_iter().enumerate() {
            layer.push(&[&key], value.as_ref().map(std::slice::from_ref).as_ref()
                .map(std::slice::from_ref), false);
            model.insert(key, value);
            if ordered_at == Some(n) {
                layer.order();
            }
        }
        layer.freeze();
        let row = |n: u32| (layer.key(n).to_vec(), layer.value(n).map(|v| v[0]));
        let all: Vec<_> = model.clone().into_iter().collect();
        if run_first {
            prop_assert_eq!(&layer.run().iter()
                .map(|entry| row(entry.record())).collect::<Vec<_>>(), &all);
        }
        prop_assert_eq!(&layer.commit_order().into_iter().map(row).collect::<Vec<_>>(), &all);
        for key in asked {
            let map = |(key, value): (&Vec<u8>, &Option<u8>)| (key.clone(), *value);
            prop_assert_eq!(layer.find(&key).map(row), model.get_key_value(&key).map(map));
            prop_assert_eq!(layer.at_or_after(&key).map(row), model.range(key.clone()..).next()
                .map(map));
            prop_assert_eq!(layer.before(&key).map(row), model.range(..key.clone()).next_back()
                .map(map));
        }
        prop_assert_eq!(&layer.run().iter()
            .map(|entry| row(entry.record())).collect::<Vec<_>>(), &all);
    }

    #[test]
    fn joined_layer_matches_layer_of_all_records(
        // Records of up to 6 KB: some neighbouring chunks fit into one, others do not.
        parts in prop::collection::vec((prop::collection::vec((long_key(),
            prop::option::of(0usize..6_000), any::<bool>()), 0..12), 0u8..4), 1..6),
        is_shared in any::<bool>(),
        asked in prop::collection::vec(long_key(), 5),
        suffix in prop_oneof![Just(0usize), Just(8)],
    ) {
        let mut whole = Layer::new(7, suffix);
        let mut joined: Option<Layer> = None;
        let mut shared = Vec::new();
        for (rows, made) in parts {
            let mut part = Layer::new(7, suffix);
            for (key, value, newest) in rows {
                let value = value.map(|len| vec![len as u8; len]);
                let value = value.as_ref().map(|value| [value.as_slice()]);
                for layer in [&mut part, &mut whole] {
                    layer.push(&[&key], value.as_ref().map(|v| v.as_slice()), newest);
                }
            }
            match made {
                0 => part.freeze(),
                1 => part.complete_order(),
                2 => {
                    part.freeze();
                    part.run();
                }
                _ => {}
            }
            joined = Some(match joined {
                None => part,
                Some(older) => {
                    let older = Arc::new(older);
                    if is_shared {
                        let rows: Vec<_> = (0..older.len() as u32)
                            .map(|n| older.encoded(n).to_vec()).collect();
                        shared.push((Arc::clone(&older), rows));
                    }
                    Layer::joined(older, part)
                }
            });
        }
        let mut joined = joined.expect("a part");
        whole.freeze();
        prop_assert_eq!(joined.commit_order(), whole.commit_order());
        if joined.is_ordered() {
            prop_assert_eq!(joined.run().iter().map(|entry| entry.record()).collect::<Vec<_>>(),
                whole.commit_order());
        }
        prop_assert_eq!(joined.len(), whole.len());
        prop_assert_eq!(joined.deletes(), whole.deletes());
        prop_assert_eq!(joined.bytes(), whole.bytes());
        for n in 0..whole.len() as u32 {
            prop_assert_eq!(joined.row(n), whole.row(n));
            prop_assert_eq!(joined.encoded(n), whole.encoded(n));
            prop_assert_eq!(joined.newest(n), whole.newest(n));
        }
        // A part that was not joined with another is not frozen.
        joined.complete_order();
        joined.catch_up();
        for key in asked {
            let part = &key[..key.len() - suffix];
            prop_assert_eq!(joined.find(part), whole.find(part));
            prop_assert_eq!(joined.at_or_after(&key), whole.at_or_after(&key));
            prop_assert_eq!(joined.before(&key), whole.before(&key));
        }
        for (older, rows) in shared {
            prop_assert!((0..older.len() as u32).all(|n| older.encoded(n) == rows[n as usize]));
        }
    }
}

#[test]
fn joined_layer_shares_bytes_of_large_chunks() {
    let layer = |value: usize| {
        let mut layer = Layer::new(7, 0);
        layer.push(&[b"key"], Some(&[&vec![1; value]]), false);
        layer.freeze();
        layer
    };
    let place = |layer: &Layer, n: u32| layer.key(n).as_ptr();
    let (older, newer) = (layer(10_000), layer(10_000));
    let places = [place(&older, 0), place(&newer, 0)];
    let joined = Layer::joined(Arc::new(older), newer);
    assert_eq!([place(&joined, 0), place(&joined, 1)], places);

    // Two small chunks become one: a view after each put would leave a chunk for each record.
    let joined = Layer::joined(Arc::new(layer(100)), layer(100));
    let first = joined.encoded(0);
    assert_eq!(first.as_ptr_range().end, joined.encoded(1).as_ptr());
}
