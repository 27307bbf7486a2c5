//! Requests to several hosts at the same time.

use std::thread;

use parking_lot::Mutex;

/// The most connections on which one call asks at the same time.
const CONNECTIONS: usize = 128;

/// Runs `ask` for each job in several threads, and returns the answers in the order of the jobs.
///
/// The calling thread is one of them, so one job needs no other thread.
pub fn at_once<J: Send, T: Send>(jobs: Vec<J>, ask: impl Fn(J) -> T + Sync) -> Vec<T> {
    let threads = jobs.len().min(CONNECTIONS);
    let (jobs, answers) = (
        Mutex::new(jobs.into_iter().enumerate()),
        Mutex::new(Vec::new()),
    );
    let work = || {
        loop {
            // The lock is free during the request.
            let next = jobs.lock().next();
            let Some((number, job)) = next else {
                return;
            };
            let answer = ask(job);
            answers.lock().push((number, answer));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            let thread = thread::Builder::new().name("read".to_owned());
            if let Err(error) = thread.spawn_scoped(scope, work) {
                log::debug!("fewer hosts are asked at the same time: {error}");
                break;
            }
        }
        work();
    });
    let mut answers = answers.into_inner();
    answers.sort_unstable_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_jobs() {
        let doubled: Vec<usize> = at_once((0..200).collect(), |job| 2 * job);
        assert_eq!(doubled, (0..400).step_by(2).collect::<Vec<usize>>());
        assert!(at_once(Vec::new(), |job: usize| job).is_empty());
    }
}
