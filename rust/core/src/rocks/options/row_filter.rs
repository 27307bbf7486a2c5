//! Compaction filters: a store drops rows while RocksDB rewrites their files.

use crate::failpoint::Failpoint;
use crate::table::FamilyKind;
use rust_rocksdb::compaction_filter::CompactionFilter;
use rust_rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};
use rust_rocksdb::{CompactionDecision, Options};
use std::ffi::CStr;
use std::sync::Arc;

/// Decides which rows of a store's families the compactions drop.
pub trait RowFilter: Clone + Send + Sync + 'static {
    /// The filter of one compaction.
    type Pass: FilterPass;

    /// Begins a compaction of a family; `manual` if Holdfast started it.
    fn begin(&self, kind: FamilyKind, manual: bool) -> Self::Pass;
}

/// One pass over the rows of a compaction, in key order.
pub trait FilterPass: Send + 'static {
    /// Whether to drop the row of this key. It cannot fail.
    fn drops(&mut self, row_key: &[u8]) -> bool;
}

/// Sets a row filter in a family's options. Only this call is dynamic: RocksDB's call for each row
/// is not.
#[derive(Clone)]
pub struct FilterSetup(Arc<SetFilter>);

type SetFilter = dyn Fn(FamilyKind, &mut Options) + Send + Sync;

impl FilterSetup {
    /// Returns a setup that sets `filter`.
    pub fn new<F: RowFilter>(filter: F) -> Self {
        Self(Arc::new(move |kind, options| {
            options.set_compaction_filter_factory(PassFactory {
                filter: filter.clone(),
                kind,
            });
        }))
    }

    pub(super) fn set(&self, kind: FamilyKind, options: &mut Options) {
        (self.0)(kind, options);
    }
}

struct PassFactory<F> {
    filter: F,
    kind: FamilyKind,
}

/// Adapts a pass to RocksDB's interface.
struct RocksPass<P>(P);

impl<F: RowFilter> CompactionFilterFactory for PassFactory<F> {
    type Filter = RocksPass<F::Pass>;

    fn create(&mut self, context: CompactionFilterContext) -> Self::Filter {
        // A filter cannot fail.
        let _ = Failpoint::InCompaction.pass();
        RocksPass(self.filter.begin(self.kind, context.is_manual_compaction))
    }

    fn name(&self) -> &CStr {
        c"holdfast.expiry"
    }
}

impl<P: FilterPass> CompactionFilter for RocksPass<P> {
    fn filter(&mut self, _: u32, row_key: &[u8], _: &[u8]) -> CompactionDecision {
        if self.0.drops(row_key) {
            CompactionDecision::Remove
        } else {
            CompactionDecision::Keep
        }
    }

    fn name(&self) -> &CStr {
        c"holdfast.expiry"
    }
}
