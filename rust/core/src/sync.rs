//! The locks that readers and the writer share.
//!
//! With the feature `shuttle`, the locks are those of a scheduler that tries many orders of the
//! threads (`rust/proof/tests/schedules.rs`). All other code is the shipped code. A lock that is
//! never held while another one is taken need not be here.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle_parking_lot::{
    MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard,
};

/// How long a thread waits for a lock before it continues without it.
#[cfg(not(feature = "shuttle"))]
const MOMENT: std::time::Duration = std::time::Duration::from_millis(1);

/// Returns the lock if it becomes free within a millisecond.
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

/// Locks for reading. A thread that already holds a read lock gets another one even if a writer
/// waits.
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
