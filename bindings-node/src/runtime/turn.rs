//! Turns of the event loop that begin in Rust, without a call from JavaScript.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use napi::bindgen_prelude::{Env, JsValue, Object};
use napi::sys::{Status, napi_async_context};

use super::libuv::{self, Functions};

/// Begins and ends the turns of one environment.
pub(super) struct Turns {
    /// The functions of libuv.
    pub(super) uv: &'static Functions,
    env: Env,
    /// The context for async hooks.
    context: napi_async_context,
    is_running: Cell<bool>,
}

impl Turns {
    /// Prepares the turns of this environment. `None` if its event loop cannot be used. Tools see `resource` as what is
    /// woken.
    ///
    /// Call it where no `AsyncLocalStorage` has a store, because each turn would have that store.
    pub(super) fn new(env: Env, resource: &Object<'_>) -> Option<Self> {
        let uv = libuv::functions(env)?;
        let name = env.create_string("redlock").ok()?;
        let mut context = ptr::null_mut();
        // SAFETY: all values belong to the environment of this thread.
        let status = unsafe {
            (uv.napi_async_init)(env.raw(), resource.raw(), name.raw(), &raw mut context)
        };
        (status == Status::napi_ok).then_some(Self {
            uv,
            env,
            context,
            is_running: Cell::new(false),
        })
    }

    /// Whether a turn runs.
    pub(super) fn is_running(&self) -> bool {
        self.is_running.get()
    }

    /// Calls JavaScript, then runs its `process.nextTick` callbacks and the code that awaits its promises.
    pub(super) fn run(&self, call: impl FnOnce()) {
        self.is_running.set(true);
        self.run_in_scopes(call);
        self.is_running.set(false);
    }

    fn run_in_scopes(&self, call: impl FnOnce()) {
        let (uv, env) = (self.uv, self.env.raw());
        let (mut values, mut turn) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the environment's loop calls this on its thread, and each scope is closed here.
        unsafe {
            if (uv.napi_open_handle_scope)(env, &raw mut values) != Status::napi_ok {
                return;
            }
            let opened =
                (uv.napi_open_callback_scope)(env, ptr::null_mut(), self.context, &raw mut turn);
            if opened == Status::napi_ok {
                // A panic must not leave the scope open, because Node.js runs no promises inside it.
                let _ = catch_unwind(AssertUnwindSafe(call));
                (uv.napi_close_callback_scope)(env, turn);
            }
            (uv.napi_close_handle_scope)(env, values);
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        // SAFETY: the owner lives on the JavaScript thread, at most until the environment finalizes it.
        unsafe { (self.uv.napi_async_destroy)(self.env.raw(), self.context) };
    }
}
