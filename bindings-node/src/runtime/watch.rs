//! A descriptor that the event loop watches with its own: it keeps no process alive, and nothing that could be collected.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;

use napi::bindgen_prelude::Env;
use napi::sys::{self, Status};

use super::libuv::{Functions, Handle, POLL, READABLE};

/// A descriptor being watched, until this is dropped or the environment ends.
pub(super) struct Watch(Rc<Watched>);

/// More than any libuv's handle of a descriptor takes, in words of the widest alignment that it could want.
type Room = [MaybeUninit<u128>; 32];

/// What libuv has, and with it one count, until it says that the handle is closed. On the loop's thread alone.
#[repr(C)]
struct Watched {
    /// The first field: the handle's address is this one's.
    handle: UnsafeCell<Room>,
    uv: &'static Functions,
    work: Box<dyn Fn()>,
    /// Tells of the environment's end, and has that wait until the handle is closed.
    hook: OnceCell<sys::napi_async_cleanup_hook_handle>,
    closing: Cell<bool>,
}

impl Watch {
    /// Has the loop do `work` whenever the descriptor, which is to be open for longer than this, has something to read. `None`:
    /// it cannot.
    pub(super) fn start(
        uv: &'static Functions,
        env: Env,
        descriptor: i32,
        work: impl Fn() + 'static,
    ) -> Option<Self> {
        let mut event_loop = ptr::null_mut();
        // SAFETY: they only answer.
        let (status, size) = unsafe {
            ((uv.napi_get_uv_event_loop)(env.raw(), &raw mut event_loop), (uv.uv_handle_size)(POLL))
        };
        if status != Status::napi_ok || event_loop.is_null() || size > size_of::<Room>() {
            return None;
        }
        let watched = Rc::new(Watched {
            handle: UnsafeCell::new([MaybeUninit::uninit(); 32]),
            uv,
            work: Box::new(work),
            hook: OnceCell::new(),
            closing: Cell::new(false),
        });
        let lent = Rc::into_raw(Rc::clone(&watched));
        // SAFETY: this is the loop's thread, there is room for the handle, and it stays where it is until it is closed.
        if unsafe { (uv.uv_poll_init)(event_loop, lent.cast_mut().cast(), descriptor) } != 0 {
            // SAFETY: libuv has not kept it.
            drop(unsafe { Rc::from_raw(lent) });
            return None;
        }
        // It has to be closed from here on, which dropping this does.
        let watch = Self(watched);
        watch.begin(env, lent).then_some(watch)
    }

    /// False: it cannot.
    fn begin(&self, env: Env, lent: *const Watched) -> bool {
        let (uv, handle) = (self.0.uv, lent.cast_mut().cast());
        let mut hook = ptr::null_mut();
        // SAFETY: the handle was initialised; the count that goes with it is taken back by `closed`, which takes the hook away.
        unsafe {
            (uv.uv_unref)(handle);
            let hooked = (uv.napi_add_async_cleanup_hook)(
                env.raw(),
                Some(environment_ends),
                lent.cast_mut().cast(),
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
    /// Has no more work done; the loop gives the memory back in its next turn.
    fn close(&self, lent: *const Self) {
        if !self.closing.replace(true) {
            // SAFETY: it was initialised, and is closed once, on the loop's thread.
            unsafe { (self.uv.uv_close)(lent.cast_mut().cast(), closed) };
        }
    }
}

/// There is something to read.
unsafe extern "C" fn ready(handle: *mut Handle, _: c_int, _: c_int) {
    // SAFETY: the handle is the first field, and not closed.
    let watched = unsafe { &*handle.cast::<Watched>() };
    let _ = catch_unwind(AssertUnwindSafe(&watched.work));
}

/// The environment ends, whose loop waits until this handle is closed.
unsafe extern "C" fn environment_ends(
    _: sys::napi_async_cleanup_hook_handle,
    watched: *mut c_void,
) {
    let watched: *const Watched = watched.cast();
    // SAFETY: it is there for as long as the hook is.
    unsafe { &*watched }.close(watched);
}

/// libuv is done with it.
unsafe extern "C" fn closed(handle: *mut Handle) {
    // SAFETY: this is the count that `start` gave, and the last that is heard of the handle.
    let watched = unsafe { Rc::from_raw(handle.cast::<Watched>()) };
    if let Some(hook) = watched.hook.get() {
        // SAFETY: it is taken away once.
        unsafe { (watched.uv.napi_remove_async_cleanup_hook)(*hook) };
    }
    // What is dropped with it must not unwind into libuv either.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(watched)));
}
