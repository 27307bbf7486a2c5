//! Deletes the items of windows that were closed, or have expired, between two epochs.

use holdfast_core::store::key_part::push_key;
use holdfast_core::store::windowed::split_row;
use holdfast_core::{KeyValueStore, Result, Step, Transaction};

use super::windows::Windows;
use crate::operator::batch_size::{BATCH_BYTES, BATCH_ROWS};

/// Deletes the items of windows that were over before the epoch, a batch of keys at a time.
///
/// If a changed grace or retention closes or expires windows between two epochs, only this sweep
/// deletes their items.
///
/// # Errors
/// Those of the store.
pub fn sweep_items(
    items: &KeyValueStore,
    windows: &dyn Windows,
    tx: &mut Transaction,
) -> Result<()> {
    let mut scan = items.range(tx, None, None, false)?;
    // The window of the last key, and whether it was over.
    let (mut window, mut is_over) = (None, false);
    loop {
        let (mut keys, mut bytes) = (Vec::<Vec<u8>>::new(), 0);
        scan.for_each(&mut |key, _| {
            keys.push(key.to_vec());
            bytes += key.len();
            if keys.len() == BATCH_ROWS || bytes >= BATCH_BYTES {
                Step::Pause
            } else {
                Step::Next
            }
        })?;
        if keys.is_empty() {
            return Ok(());
        }
        for item in &keys {
            let Some((part, start, _)) = split_row(item) else {
                continue;
            };
            let mut key = Vec::with_capacity(part.len());
            push_key(part, &mut key);
            let of_item = Some((key, start));
            if of_item != window {
                is_over = match &of_item {
                    Some((key, start)) => windows.was_over(key, *start, tx)?,
                    None => false,
                };
                window = of_item;
            }
            if is_over {
                items.put(tx, item, None)?;
            }
        }
    }
}
