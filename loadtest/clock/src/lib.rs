//! A separate wall clock for one process. The library is loaded before the C library (`LD_PRELOAD`)
//! and answers requests for the time of day in its place. It adds the seconds in the file that
//! `BLOC_CLOCK` names, a native-endian `i64`. A write to that number, in place, steps the clock.
//! Without the variable or the file it adds nothing.
//!
//! The monotonic clocks do not change, as when an administrator or NTP sets a machine's clock.
//! libfaketime does more, but hangs with Envoy, apparently because it takes locks and memory while
//! Envoy's allocator starts. This library takes neither.
#![allow(unsafe_code, reason = "functions for the C library's callers")]

use libc::{c_int, c_long, c_void, clockid_t, suseconds_t, time_t, timespec, timeval};
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

static NONE: AtomicI64 = AtomicI64::new(0);
/// The address of the seconds; null until the first request for the time.
static SECONDS: AtomicPtr<AtomicI64> = AtomicPtr::new(ptr::null_mut());

/// `clock_gettime(2)`.
///
/// # Safety
/// As the C library's: `time` is valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // The system call itself: here, the C library's function of this name is this one.
    // SAFETY: the caller vouches for `time`.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, c_long::from(clock), time) };
    if result == 0 && matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE) {
        // SAFETY: the kernel has just written there.
        unsafe { (*time).tv_sec += seconds() };
    }
    // Zero or minus one.
    result as c_int
}

/// `gettimeofday(2)`.
///
/// # Safety
/// As the C library's: `time` is valid to write to, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, _zone: *mut c_void) -> c_int {
    let now = now();
    if !time.is_null() {
        let now = timeval { tv_sec: now.tv_sec, tv_usec: (now.tv_nsec / 1_000) as suseconds_t };
        // SAFETY: the caller vouches for `time`, which is not null.
        unsafe { time.write(now) };
    }
    0
}

/// `time(2)`.
///
/// # Safety
/// As the C library's: `seconds` is valid to write to, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(seconds: *mut time_t) -> time_t {
    let now = now().tv_sec;
    if !seconds.is_null() {
        // SAFETY: the caller vouches for `seconds`, which is not null.
        unsafe { seconds.write(now) };
    }
    now
}

fn now() -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a local variable is valid to write to.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    now
}

fn seconds() -> i64 {
    let mut at = SECONDS.load(Ordering::Acquire);
    if at.is_null() {
        at = map();
        // Another thread that maps it at the same time gets another view of the same file.
        SECONDS.store(at, Ordering::Release);
    }
    // SAFETY: `NONE`, or a page that stays mapped as long as the process runs; others change it
    // only as a whole.
    unsafe { (*at).load(Ordering::Relaxed) }
}

/// A view of the file that `BLOC_CLOCK` names. Nothing here takes memory or a lock, because the
/// allocator may be the caller.
fn map() -> *mut AtomicI64 {
    let none = (&raw const NONE).cast_mut();
    // SAFETY: both are strings that end with a zero, or null, which is checked.
    let file = unsafe {
        let path = libc::getenv(c"BLOC_CLOCK".as_ptr());
        if path.is_null() { -1 } else { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC) }
    };
    if file < 0 {
        return none;
    }
    // SAFETY: a new mapping of a file that was just opened, which needs no descriptor once it is
    // there.
    let page = unsafe {
        let page = libc::mmap(ptr::null_mut(), size_of::<i64>(), libc::PROT_READ, libc::MAP_SHARED, file, 0);
        libc::close(file);
        page
    };
    if page == libc::MAP_FAILED { none } else { page.cast() }
}
