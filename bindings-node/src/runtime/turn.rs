//! A turn of the event loop that begins with Rust: no JavaScript has called, and none calls what is to follow.

use std::ptr;

use napi::bindgen_prelude::{Env, JsValue, Object};
use napi::sys::{Status, napi_async_context};

use super::libuv::{self, Functions};

/// How one environment's turns begin and end.
pub(super) struct Turns {
    /// What is there for it.
    pub(super) uv: &'static Functions,
    env: Env,
    /// What async hooks are told of.
    context: napi_async_context,
}

impl Turns {
    /// Of this environment, for tools under the name of what it wakes. `None`: its event loop is not for us to use.
    ///
    /// Where no `AsyncLocalStorage` has a store: each turn would have it.
    pub(super) fn new(env: Env, resource: &Object<'_>) -> Option<Self> {
        let uv = libuv::of(env)?;
        let name = env.create_string("redlock").ok()?;
        let mut context = ptr::null_mut();
        // SAFETY: all of it belongs to the environment whose thread this is.
        let status = unsafe {
            (uv.napi_async_init)(env.raw(), resource.raw(), name.raw(), &raw mut context)
        };
        (status == Status::napi_ok).then_some(Self { uv, env, context })
    }

    /// Calls JavaScript; what it leaves to be done at once follows: `process.nextTick`, and whoever awaits.
    pub(super) fn run(&self, call: impl FnOnce()) {
        let (uv, env) = (self.uv, self.env.raw());
        let (mut values, mut turn) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: called by the environment's loop, on its thread, and each scope is closed in here.
        unsafe {
            if (uv.napi_open_handle_scope)(env, &raw mut values) != Status::napi_ok {
                return;
            }
            let opened =
                (uv.napi_open_callback_scope)(env, ptr::null_mut(), self.context, &raw mut turn);
            if opened == Status::napi_ok {
                call();
                (uv.napi_close_callback_scope)(env, turn);
            }
            (uv.napi_close_handle_scope)(env, values);
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        // SAFETY: who owns it lives on the JavaScript thread, at the latest until its environment finalizes it.
        unsafe { (self.uv.napi_async_destroy)(self.env.raw(), self.context) };
    }
}
