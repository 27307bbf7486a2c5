//! Which host serves a partition: claims under `owners/`, put if absent, ordered by (run,
//! generation).
//!
//! Ownership only says which host has a partition's database open; the log's puts decide what an
//! epoch holds. So a wrong decision here costs time, never data. A host that counts as unreachable
//! may only have stalled, and two hosts may both act as the owner. `docs/design/ownership.md` has
//! the argument, `tests/ownership_model.rs` checks it.

mod tcp_endpoint;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::number::{Generation, RunNumber};
pub use tcp_endpoint::{KeyFingerprint, TcpEndpoint};

/// How many of the newest owners are asked before the requesting host serves a partition itself.
///
/// The owner before the newest has the next best copy. More are not asked, because each unreachable
/// one costs a timeout.
pub const NEWEST_OWNERS: usize = 2;

/// The term of one host's ownership of one partition.
///
/// Terms are ordered: those of a newer run come after all of an older run's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term {
    /// The run.
    pub run: RunNumber,
    /// Counts the claims of the partition in this run.
    pub generation: Generation,
}

impl Term {
    /// Returns the first term of a run.
    #[must_use]
    pub fn first(run: RunNumber) -> Self {
        Self {
            run,
            generation: Generation(1),
        }
    }

    /// Returns the next term of the same run. Generations leave no gap, so within a run a term has
    /// ended if and only if the next one is claimed.
    #[must_use]
    pub fn next(self) -> Self {
        Self {
            generation: Generation(self.generation.0.saturating_add(1)),
            ..self
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}, generation {}", self.run, self.generation)
    }
}

/// One process of a state host; another process on the same socket or port has another id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub String);

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A claim: which host owns a partition, and how to reach it. It contains no secret: reading it
/// gives no access to the host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its term; not in the content, since it is the object's name.
    #[serde(skip, default = "unnumbered")]
    pub term: Term,
    /// The host.
    pub host: HostId,
    /// Where it listens; none for a host that only its own executor can reach.
    pub endpoint: Option<TcpEndpoint>,
    /// The Spark application of the host's executor. Hosts of another application are not asked,
    /// because they are expected to end.
    pub application: Option<String>,
}

fn unnumbered() -> Term {
    Term {
        run: RunNumber(0),
        generation: Generation(0),
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "host {} at {} ({})",
            self.host,
            self.endpoint
                .as_ref()
                .map_or("no address", |endpoint| &endpoint.address),
            self.term
        )
    }
}

/// The next step of a host that is asked for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerStep<'a> {
    /// This host owns the partition: open the session here.
    Held(Term),
    /// Another host owns it, or has the most recent copy: send the worker there.
    Ask(&'a Owner),
    /// Put a claim of this term if it is absent, then read the claims again in either case.
    Put(Term),
    /// A newer run has claimed the partition.
    Superseded,
}

/// Returns the next step of the host `me` for a task of `run` in `application`.
///
/// `claims`: at least the newest [`NEWEST_OWNERS`] of the partition, in any order.
/// `is_unreachable`: whether a host did not answer. `restored`: the term of the owner that this
/// host relieves, once this host has restored the partition up to the last decided epoch; otherwise
/// none.
#[must_use]
pub fn owner_step<'a>(
    claims: &'a [Owner],
    me: &HostId,
    run: RunNumber,
    application: Option<&str>,
    is_unreachable: &impl Fn(&HostId) -> bool,
    restored: Option<Term>,
) -> OwnerStep<'a> {
    let mut newest_first: Vec<&Owner> = claims.iter().collect();
    newest_first.sort_unstable_by_key(|claim| std::cmp::Reverse(claim.term));
    let Some(newest) = newest_first.first() else {
        return OwnerStep::Put(Term::first(run));
    };
    if newest.term.run > run {
        return OwnerStep::Superseded;
    }
    let next = if newest.term.run == run {
        newest.term.next()
    } else {
        Term::first(run)
    };
    if newest.host == *me && newest.term.run == run {
        return OwnerStep::Held(newest.term);
    }
    // A planned move. The terms are compared because the partition may have moved meanwhile: then
    // its owner is another host, with another load.
    if newest.term.run == run && restored == Some(newest.term) {
        return OwnerStep::Put(next);
    }
    let can_serve = |claim: &&Owner| {
        claim.host == *me
            || claim.endpoint.is_some()
                && claim.application.as_deref() == application
                && !is_unreachable(&claim.host)
    };
    match newest_first.into_iter().take(NEWEST_OWNERS).find(can_serve) {
        Some(owner) if owner.host != *me => OwnerStep::Ask(owner),
        _ => OwnerStep::Put(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLICATION: Option<&str> = Some("app-1");

    fn owner(run: u64, generation: u64, host: &str) -> Owner {
        Owner {
            term: Term {
                run: RunNumber(run),
                generation: Generation(generation),
            },
            host: HostId(host.into()),
            endpoint: Some(TcpEndpoint {
                address: format!("{host}:1"),
                key: KeyFingerprint([0; 32]),
            }),
            application: APPLICATION.map(str::to_owned),
        }
    }

    fn step<'a>(claims: &'a [Owner], me: &str, run: u64, unreachable: &[&str]) -> OwnerStep<'a> {
        owner_step(
            claims,
            &HostId(me.into()),
            RunNumber(run),
            APPLICATION,
            &|host| unreachable.contains(&host.0.as_str()),
            None,
        )
    }

    fn term(run: u64, generation: u64) -> Term {
        Term {
            run: RunNumber(run),
            generation: Generation(generation),
        }
    }

    #[test]
    fn a_partition_without_owner_goes_to_the_host_that_is_asked() {
        assert_eq!(step(&[], "a", 2, &[]), OwnerStep::Put(term(2, 1)));
    }

    #[test]
    fn a_live_owner_is_asked_and_an_unreachable_owner_is_replaced() {
        let claims = [owner(1, 1, "a")];
        assert_eq!(step(&claims, "a", 1, &[]), OwnerStep::Held(term(1, 1)));
        assert_eq!(step(&claims, "b", 1, &[]), OwnerStep::Ask(&claims[0]));
        assert_eq!(step(&claims, "b", 1, &["a"]), OwnerStep::Put(term(1, 2)));
    }

    #[test]
    fn a_stalled_owner_finds_the_higher_generation() {
        let claims = [owner(1, 1, "a"), owner(1, 2, "b")];
        assert_eq!(step(&claims, "a", 1, &[]), OwnerStep::Ask(&claims[1]));
        // If the newer owner is unreachable, the first one continues under a new generation.
        assert_eq!(step(&claims, "a", 1, &["b"]), OwnerStep::Put(term(1, 3)));
    }

    #[test]
    fn the_owner_before_an_unreachable_one_has_the_most_recent_copy() {
        let claims = [owner(1, 1, "x"), owner(1, 3, "b"), owner(1, 2, "a")];
        assert_eq!(step(&claims, "c", 1, &["b"]), OwnerStep::Ask(&claims[2]));
        assert_eq!(step(&claims, "a", 1, &["b"]), OwnerStep::Put(term(1, 4)));
        assert_eq!(
            step(&claims, "c", 1, &["a", "b"]),
            OwnerStep::Put(term(1, 4)),
            "no third owner is asked"
        );
    }

    #[test]
    fn a_new_run_stays_with_the_hosts_of_its_application() {
        let mut claims = [owner(1, 5, "a")];
        assert_eq!(step(&claims, "b", 2, &[]), OwnerStep::Ask(&claims[0]));
        assert_eq!(
            step(&claims, "a", 2, &[]),
            OwnerStep::Put(term(2, 1)),
            "a claim of the new run, which the old run cannot exceed"
        );
        claims[0].application = Some("app-0".into());
        assert_eq!(step(&claims, "b", 2, &[]), OwnerStep::Put(term(2, 1)));
    }

    #[test]
    fn a_live_owner_is_relieved_by_a_host_that_has_restored_its_partition() {
        let claims = [owner(1, 1, "a"), owner(1, 2, "b")];
        let step = |run: u64, restored: Option<Term>| {
            let (me, run) = (HostId("c".into()), RunNumber(run));
            owner_step(&claims, &me, run, APPLICATION, &|_| false, restored)
        };
        assert_eq!(step(1, Some(term(1, 2))), OwnerStep::Put(term(1, 3)));
        assert_eq!(step(1, Some(term(1, 1))), OwnerStep::Ask(&claims[1]));
        assert_eq!(step(2, Some(term(1, 2))), OwnerStep::Ask(&claims[1]));
        assert_eq!(step(1, None), OwnerStep::Ask(&claims[1]));
    }

    #[test]
    fn an_older_run_cannot_take_over_from_a_newer_one() {
        let claims = [owner(2, 1, "b"), owner(1, 9, "a")];
        assert_eq!(step(&claims, "a", 1, &["b"]), OwnerStep::Superseded);
    }

    #[test]
    fn a_host_without_an_address_cannot_be_asked() {
        let mut claims = [owner(1, 1, "a")];
        claims[0].endpoint = None;
        assert_eq!(step(&claims, "b", 1, &[]), OwnerStep::Put(term(1, 2)));
        assert_eq!(step(&claims, "a", 1, &[]), OwnerStep::Held(term(1, 1)));
    }
}
