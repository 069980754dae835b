//! Lets the event loop watch a descriptor together with its own. This keeps neither the process nor a collectable
//! object alive.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;

use napi::bindgen_prelude::Env;
use napi::sys::{self, Status};

use super::libuv::{Functions, Handle, POLL, READABLE};

/// A watched descriptor, until this is dropped or the environment ends.
pub(super) struct Watch(Rc<Watched>);

/// Space for the descriptor handle of any libuv version, in words of the widest alignment.
type HandleSpace = [MaybeUninit<u128>; 32];

/// The data that libuv refers to. libuv has one reference count until it reports that the handle is closed. Only used
/// on the loop's thread.
#[repr(C)]
struct Watched {
    /// The first field, so that the handle has the same address as this struct.
    handle: UnsafeCell<HandleSpace>,
    uv: &'static Functions,
    work: Box<dyn Fn()>,
    /// Reports the end of the environment, which then waits until the handle is closed.
    hook: OnceCell<sys::napi_async_cleanup_hook_handle>,
    closing: Cell<bool>,
}

impl Watch {
    /// Makes the loop call `work` whenever the descriptor is readable. The descriptor must stay open longer than this.
    /// Returns `None` if the loop cannot watch it.
    pub(super) fn start(
        uv: &'static Functions,
        env: Env,
        descriptor: i32,
        work: impl Fn() + 'static,
    ) -> Option<Self> {
        let mut event_loop = ptr::null_mut();
        // SAFETY: both functions only return values.
        let (status, size) = unsafe {
            ((uv.napi_get_uv_event_loop)(env.raw(), &raw mut event_loop), (uv.uv_handle_size)(POLL))
        };
        if status != Status::napi_ok || event_loop.is_null() || size > size_of::<HandleSpace>() {
            return None;
        }
        let watched = Rc::new(Watched {
            handle: UnsafeCell::new([MaybeUninit::uninit(); 32]),
            uv,
            work: Box::new(work),
            hook: OnceCell::new(),
            closing: Cell::new(false),
        });
        let pointer = Rc::into_raw(Rc::clone(&watched));
        // SAFETY: this is the loop's thread, there is space for the handle, and it stays in place until it is closed.
        if unsafe { (uv.uv_poll_init)(event_loop, pointer.cast_mut().cast(), descriptor) } != 0 {
            // SAFETY: libuv did not keep the pointer.
            drop(unsafe { Rc::from_raw(pointer) });
            return None;
        }
        // The handle must be closed from here on, which dropping `watch` does.
        let watch = Self(watched);
        watch.start_watching(env, pointer).then_some(watch)
    }

    /// Starts watching. Returns false if the loop cannot.
    fn start_watching(&self, env: Env, pointer: *const Watched) -> bool {
        let (uv, handle) = (self.0.uv, pointer.cast_mut().cast());
        let mut hook = ptr::null_mut();
        // SAFETY: the handle was initialised. `closed` takes its reference count back and removes the hook.
        unsafe {
            (uv.uv_unref)(handle);
            let hooked = (uv.napi_add_async_cleanup_hook)(
                env.raw(),
                Some(environment_ends),
                pointer.cast_mut().cast(),
                &raw mut hook,
            );
            hooked == Status::napi_ok
                && self.0.hook.set(hook).is_ok()
                && (uv.uv_poll_start)(handle, READABLE, ready) == 0
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.close(Rc::as_ptr(&self.0));
    }
}

impl Watched {
    /// Stops calling `work`. The loop frees the memory in its next turn.
    fn close(&self, pointer: *const Self) {
        if !self.closing.replace(true) {
            // SAFETY: the handle was initialised, and is closed once, on the loop's thread.
            unsafe { (self.uv.uv_close)(pointer.cast_mut().cast(), closed) };
        }
    }
}

/// libuv calls this when the descriptor is readable.
unsafe extern "C" fn ready(handle: *mut Handle, _: c_int, _: c_int) {
    // SAFETY: the handle is the first field, and is not closed.
    let watched = unsafe { &*handle.cast::<Watched>() };
    let _ = catch_unwind(AssertUnwindSafe(&watched.work));
}

/// Called when the environment ends. Its loop waits until this handle is closed.
unsafe extern "C" fn environment_ends(
    _: sys::napi_async_cleanup_hook_handle,
    watched: *mut c_void,
) {
    let watched: *const Watched = watched.cast();
    // SAFETY: the struct exists as long as the hook.
    unsafe { &*watched }.close(watched);
}

/// libuv calls this when it no longer uses the handle.
unsafe extern "C" fn closed(handle: *mut Handle) {
    // SAFETY: this is the reference count from `start`, and libuv's last call for the handle.
    let watched = unsafe { Rc::from_raw(handle.cast::<Watched>()) };
    if let Some(hook) = watched.hook.get() {
        // SAFETY: the hook is removed once.
        unsafe { (watched.uv.napi_remove_async_cleanup_hook)(*hook) };
    }
    // A panic while dropping it must not unwind into libuv.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(watched)));
}
