//! Points where a test can make the engine fail, panic or die: the proof crate takes each of them
//! through all three.
//!
//! They are always compiled. The `fail` crate costs a lock and a hash lookup at every point unless
//! a feature switches it off, and with a feature the program that is tested is not the one that is
//! shipped, and everything is compiled twice. These cost one relaxed load each, and none lies on
//! the path of a row. Nothing but the calls below can arm one.

use crate::error::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

macro_rules! failpoints {
    ($($name:ident),* $(,)?) => {
        /// A moment at which things may go wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum Failpoint {
            $($name),*
        }

        impl Failpoint {
            /// Every point: the proof crate fails for one that it does not reach.
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
    BeforeMoveIn,
    AfterMoveIn,
    BeforeMoveOut,
    FilesMovedOut,
    RowsKept,
    OneFamilyDropped,
    BeforeSpill,
    AfterSpill,
    BeforeCommitFile,
    AfterCommitFile,
    BetweenIngests,
    BeforeCommitFileRemoval,
}

/// What happens at an armed point, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// An error of kind `Io`.
    Error,
    /// A panic.
    Panic,
    /// The process dies.
    Abort,
    /// Nothing but that [`Failpoint::is_armed`] turns false.
    Mark,
    /// The thread stays there until [`Failpoint::release`].
    Hold,
}

/// How many times the armed point is passed before something happens there, then the action, then
/// the point; 0 is unarmed.
static ARMED: AtomicU64 = AtomicU64::new(0);
const ARM: u64 = 1 << 63;

/// A thread that comes to the point stays there.
static HELD: AtomicBool = AtomicBool::new(false);

impl Failpoint {
    /// The next time but `passed` that this point is reached, the action happens.
    pub fn arm(self, action: Action, passed: u32) {
        HELD.store(action == Action::Hold, Ordering::SeqCst);
        ARMED.store(
            ARM | u64::from(passed) << 16 | (action as u64) << 8 | self as u64,
            Ordering::SeqCst,
        );
    }

    /// Disarms; false if an armed point has not been reached.
    pub fn disarm() -> bool {
        ARMED.swap(0, Ordering::SeqCst) == 0
    }

    /// Whether a point is armed that has not been reached.
    pub fn is_armed() -> bool {
        ARMED.load(Ordering::SeqCst) != 0
    }

    /// Lets the thread go on that stays at a point.
    pub fn release() {
        HELD.store(false, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn reached(self) -> Result<()> {
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
        // Of two threads that reach it at once, one acts.
        if ARMED
            .compare_exchange(armed, next, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
            || passed > 0
        {
            return Ok(());
        }
        match (armed >> 8) as u8 {
            action if action == Action::Abort as u8 => std::process::abort(),
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
