//! Points at which a test can make the engine return an error, panic or die. The proof crate does
//! all three at each point.
//!
//! Failpoints are always compiled, so the tested program is the shipped one. Each costs one relaxed
//! load, and no loop over rows has one. The `fail` crate would cost a lock and a hash lookup at
//! each point, or a feature and a second build. Only the calls below can arm a point.

use crate::error::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

macro_rules! failpoints {
    ($($name:ident),* $(,)?) => {
        /// A point in the code at which a test can inject a fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the names say where the points are")]
        pub enum Failpoint {
            $($name),*
        }

        impl Failpoint {
            /// All points. The proof crate's tests inject faults at each of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

failpoints! {
    BeforeOpen,
    AfterOpen,
    BeforeCommit,
    AfterCommit,
    BeforeFlush,
    AfterFlush,
    BeforeExpiry,
    InCompaction,
    BeforeCheckpoint,
    AfterCheckpoint,
    BeforeClose,
    BeforeSpill,
    AfterSpill,
    BeforeCommitFile,
    AfterCommitFile,
    BetweenIngests,
    BeforeCommitFileRemoval,
}

/// What happens at an armed point. It happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// An error of kind `Io`.
    Error,
    /// A panic.
    Panic,
    /// The process dies with SIGABRT. Its last line on stderr names the point.
    Abort,
    /// Nothing, except that [`Failpoint::is_armed`] becomes false.
    Mark,
    /// The thread waits until [`Failpoint::release`].
    Hold,
}

/// The armed point: a flag, the number of passes before the action, the action, the point. 0 if no
/// point is armed.
static ARMED: AtomicU64 = AtomicU64::new(0);
const ARM: u64 = 1 << 63;

/// Whether a thread that acts on [`Action::Hold`] must wait: true from `arm` to `release`.
static HELD: AtomicBool = AtomicBool::new(false);

impl Failpoint {
    /// Arms this point. The first `passed` passes do nothing, and the action happens at the next
    /// one.
    pub fn arm(self, action: Action, passed: u32) {
        HELD.store(action == Action::Hold, Ordering::SeqCst);
        ARMED.store(
            ARM | u64::from(passed) << 16 | (action as u64) << 8 | self as u64,
            Ordering::SeqCst,
        );
    }

    /// Disarms the armed point. Returns false if its action has not happened.
    pub fn disarm() -> bool {
        ARMED.swap(0, Ordering::SeqCst) == 0
    }

    /// Returns whether a point is armed and its action has not happened.
    pub fn is_armed() -> bool {
        ARMED.load(Ordering::SeqCst) != 0
    }

    /// Continues the thread that waits at a point.
    pub fn release() {
        HELD.store(false, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn pass(self) -> Result<()> {
        if ARMED.load(Ordering::Relaxed) == 0 {
            Ok(())
        } else {
            self.act()
        }
    }

    #[cold]
    fn act(self) -> Result<()> {
        let armed = ARMED.load(Ordering::SeqCst);
        if armed & ARM == 0 || armed as u8 != self as u8 {
            return Ok(());
        }
        let passed = (armed & !ARM) >> 16;
        let next = if passed == 0 { 0 } else { armed - (1 << 16) };
        // If two threads pass the point at once, only one acts.
        if ARMED
            .compare_exchange(armed, next, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
            || passed > 0
        {
            return Ok(());
        }
        match (armed >> 8) as u8 {
            action if action == Action::Abort as u8 => {
                eprintln!("failpoint {self:?}: abort");
                std::process::abort()
            }
            action if action == Action::Mark as u8 => Ok(()),
            action if action == Action::Hold as u8 => {
                while HELD.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            }
            action if action == Action::Panic as u8 => {
                std::panic::panic_any(format!("failpoint {self:?}"))
            }
            _ => Err(Error::new(ErrorKind::Io, format!("failpoint {self:?}"))),
        }
    }
}
