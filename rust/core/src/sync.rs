//! The locks at which readers and the writer meet. With the feature `shuttle` they are those of a
//! scheduler that tries one order of the threads after the other (`rust/proof/tests/schedules.rs`);
//! everything else is the code that is shipped.
//!
//! Locks that are held over no other lock need not be here.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle_parking_lot::{
    MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard,
};

/// How long a thread waits for a lock before it looks for another way on.
#[cfg(not(feature = "shuttle"))]
const MOMENT: std::time::Duration = std::time::Duration::from_millis(1);

/// The lock, if it becomes free soon.
#[inline]
pub(crate) fn lock_for_a_moment<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    #[cfg(not(feature = "shuttle"))]
    return lock.try_lock_for(MOMENT);
    #[cfg(feature = "shuttle")]
    {
        shuttle::thread::yield_now();
        lock.try_lock()
    }
}

/// A share of the lock, also for a thread that has one already while a writer waits.
#[inline]
pub(crate) fn read_recursive<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    #[cfg(not(feature = "shuttle"))]
    return lock.read_recursive();
    #[cfg(feature = "shuttle")]
    loop {
        if let Some(guard) = lock.try_read() {
            return guard;
        }
        shuttle::thread::yield_now();
    }
}
