//! Which partitions move between live hosts, so that all serve about the same number.
//!
//! A new host takes over partitions from hosts that serve more, one at a time. A partition moves
//! after the new host has restored it ([`super::owner_step`] with `restored`), so no epoch waits
//! for the restore. `tests/balance_model.rs` checks these rules.

/// Returns whether a host with `mine` partitions takes one over from a live host with `theirs`.
///
/// Each such move makes the loads more equal, so moves end. A difference of one causes no move.
#[must_use]
pub fn relieves(theirs: usize, mine: usize) -> bool {
    theirs >= mine.saturating_add(2)
}

/// Returns whether the two loads are so close that the claims must be read again before a move.
///
/// The claims that a host has read may be old, and other hosts may have relieved the same host.
#[must_use]
pub fn needs_recount(theirs: usize, mine: usize) -> bool {
    theirs <= mine.saturating_mul(2).saturating_add(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_moves_only_if_the_loads_become_more_equal() {
        for theirs in 0..40_usize {
            for mine in 0..40_usize {
                let after = theirs.saturating_sub(1).abs_diff(mine + 1);
                let is_better = theirs > mine && after < theirs.abs_diff(mine);
                assert_eq!(relieves(theirs, mine), is_better, "{theirs} and {mine}");
            }
        }
    }

    #[test]
    fn claims_are_read_again_up_to_four_more_than_twice_the_own_partitions() {
        for mine in 0..40_usize {
            assert!(needs_recount(2 * mine + 4, mine), "{mine}");
            assert!(!needs_recount(2 * mine + 5, mine), "{mine}");
        }
    }
}
