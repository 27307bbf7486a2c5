//! Layers, active and frozen, compared with a map.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

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
}
