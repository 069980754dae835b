//! Whether this thread's stack has room for the work of a connection.

use std::cell::Cell;

/// What a connection's work needs, and as much again: a reply is parsed, a log's subscriber may be called.
const ROOM: usize = 96 << 10;

thread_local! {
    /// The lowest address of this thread's stack; `None`: not known yet. 0: nobody says.
    static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether enough of it is left here.
pub(crate) fn is_roomy() -> bool {
    // On the stack, as it is known by its address.
    let marker = std::hint::black_box(0_u8);
    let here = std::ptr::from_ref(&marker).addr();
    let lowest = LOWEST.try_with(|known| {
        known.get().unwrap_or_else(|| {
            let lowest = lowest().unwrap_or(0);
            known.set(Some(lowest));
            lowest
        })
    });
    lowest.is_ok_and(|lowest| here.saturating_sub(lowest) >= ROOM)
}

/// Where the system says so.
#[cfg(target_os = "linux")]
fn lowest() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut address, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are written by the first call before they are read and destroyed, once each, and only if
    // it succeeded.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut attributes = attributes.assume_init();
        let known =
            libc::pthread_attr_getstack(&raw const attributes, &raw mut address, &raw mut size)
                == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        known.then_some(address.addr())
    }
}

/// Where this thread's stack ends.
#[cfg(target_vendor = "apple")]
fn lowest() -> Option<usize> {
    // SAFETY: both calls only read what belongs to this thread.
    unsafe {
        let this = libc::pthread_self();
        let highest = libc::pthread_get_stackaddr_np(this).addr();
        highest.checked_sub(libc::pthread_get_stacksize_np(this))
    }
}

/// Elsewhere nobody is known to make threads with less.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn lowest() -> Option<usize> {
    None
}
