//! Checks whether this thread's stack has enough space for the work of a connection.

use std::cell::Cell;

/// Twice the space that the work of a connection needs.
const NEEDED: usize = 96 << 10;

thread_local! {
    /// The lowest address of this thread's stack. `None` before the first check, and 0 if the system does not tell.
    static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether enough space is left.
pub(crate) fn has_stack_space() -> bool {
    // Its address is the current position.
    let marker = std::hint::black_box(0_u8);
    let here = std::ptr::from_ref(&marker).addr();
    let lowest = LOWEST.try_with(|known| {
        known.get().unwrap_or_else(|| {
            let lowest = lowest().unwrap_or(0);
            known.set(Some(lowest));
            lowest
        })
    });
    lowest.is_ok_and(|lowest| here.saturating_sub(lowest) >= NEEDED)
}

/// Returns the lowest address of this thread's stack.
#[cfg(target_os = "linux")]
fn lowest() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut address, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the first call writes the attributes. They are read and destroyed once, and only if it succeeded.
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

/// Returns the lowest address of this thread's stack.
#[cfg(target_vendor = "apple")]
fn lowest() -> Option<usize> {
    // SAFETY: both calls only read data of this thread.
    unsafe {
        let this = libc::pthread_self();
        let highest = libc::pthread_get_stackaddr_np(this).addr();
        highest.checked_sub(libc::pthread_get_stacksize_np(this))
    }
}

/// Other systems have no threads with small stacks.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn lowest() -> Option<usize> {
    None
}
