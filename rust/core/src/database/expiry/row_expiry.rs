//! Drops expired rows in compactions.

use crate::expiry::{Ends, ExpiryFilter, Horizon};
use crate::rocks::{FilterPass, RowFilter};
use crate::store::windowed;
use crate::table::FamilyKind;

/// Drops the rows of a store that its horizon has passed.
#[derive(Clone)]
pub(in crate::database) struct RowExpiry(pub(in crate::database) Horizon);

/// One compaction: the horizon at its beginning, and the ends of the rows that stay.
pub(in crate::database) struct RowExpiryPass {
    row_ends: RowEnds,
    moment: i64,
    horizon: Horizon,
    ends: Option<Ends>,
}

/// How the end of a row is found.
enum RowEnds {
    Versions(ExpiryFilter),
    Windowed(FamilyKind),
}

impl RowFilter for RowExpiry {
    type Pass = RowExpiryPass;

    fn begin(&self, kind: FamilyKind, manual: bool) -> RowExpiryPass {
        let horizon = self.0.clone();
        let moment = horizon.get();
        let row_ends = match kind {
            FamilyKind::Versions => RowEnds::Versions(ExpiryFilter::new(moment)),
            kind => RowEnds::Windowed(kind),
        };
        let ends = if manual { horizon.wanted_ends() } else { None };
        RowExpiryPass {
            row_ends,
            moment,
            horizon,
            ends,
        }
    }
}

impl FilterPass for RowExpiryPass {
    fn drops(&mut self, row_key: &[u8]) -> bool {
        let end = match &mut self.row_ends {
            RowEnds::Versions(filter) => filter.end(row_key),
            RowEnds::Windowed(kind) => windowed::row_time(*kind, row_key),
        };
        if end.is_some_and(|end| end < self.moment) {
            return true;
        }
        if let (Some(end), Some(ends)) = (end, &mut self.ends) {
            ends.note(end);
        }
        false
    }
}

impl Drop for RowExpiryPass {
    fn drop(&mut self) {
        if let Some(ends) = &self.ends {
            self.horizon.add_ends(ends);
        }
    }
}
