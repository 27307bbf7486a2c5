//! Replaces the C library's `fsync` in this process. The simulated disk then handles each sync of a
//! root by the host and by its object store client. RocksDB's databases are not on that disk.
#![allow(unsafe_code, reason = "a function of the C library is replaced")]

use std::ffi::c_int;
use std::os::fd::BorrowedFd;

use crate::disk;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    let synced = match disk::sync(file) {
        Some(synced) => synced,
        // SAFETY: the caller's descriptor is open during the call.
        None => rustix::fs::fsync(unsafe { BorrowedFd::borrow_raw(file) }),
    };
    match synced {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: the address is this thread's own.
            unsafe { *__errno_location() = error.raw_os_error() };
            -1
        }
    }
}
