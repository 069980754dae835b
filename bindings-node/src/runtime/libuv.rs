//! Looks up the functions of libuv, and the Node-API functions that belong to it, at run time.
//!
//! If they were linked at build time, a missing one would prevent the package from loading. This affects other
//! runtimes, and builds of Node.js that have libuv elsewhere.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem;
use std::sync::OnceLock;

use napi::bindgen_prelude::{Env, JsObjectValue, Object};
use napi::sys::{self, napi_env, napi_status, napi_value};

/// A libuv handle. Only libuv knows its size.
#[repr(C)]
pub(super) struct Handle([u8; 0]);

/// Callback with the handle, 0 or an error, and the events.
pub(super) type Ready = unsafe extern "C" fn(*mut Handle, c_int, c_int);
/// Callback after which libuv no longer uses the handle's memory.
pub(super) type Closed = unsafe extern "C" fn(*mut Handle);

/// libuv's number for a handle that watches a descriptor.
pub(super) const POLL: c_int = 8;
/// libuv's event for a readable descriptor.
pub(super) const READABLE: c_int = 1;
/// The major version of libuv in which handles work as used here.
const MAJOR: c_uint = 1;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions, under their names in C.
        #[allow(clippy::struct_field_names, reason = "they are libuv's, and Node-API's")]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl Functions {
            fn find() -> Option<Self> {
                $(
                    let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes());
                    let $name = symbol(name.ok()?)?;
                )*
                // SAFETY: only libuv and Node-API use these names, in any process, and the signatures have not changed
                // since the functions exist.
                Some(unsafe { Self { $($name: mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn($($argument),*) $(-> $answer)?,
                >($name),)* } })
            }
        }
    };
}

functions! {
    uv_version: fn() -> c_uint;
    uv_handle_size: fn(c_int) -> usize;
    uv_poll_init: fn(*mut sys::uv_loop_s, *mut Handle, c_int) -> c_int;
    uv_poll_start: fn(*mut Handle, c_int, Ready) -> c_int;
    uv_unref: fn(*mut Handle);
    uv_close: fn(*mut Handle, Closed);
    napi_get_uv_event_loop: fn(napi_env, *mut *mut sys::uv_loop_s) -> napi_status;
    napi_add_async_cleanup_hook: fn(
        napi_env,
        sys::napi_async_cleanup_hook,
        *mut c_void,
        *mut sys::napi_async_cleanup_hook_handle
    ) -> napi_status;
    napi_remove_async_cleanup_hook: fn(sys::napi_async_cleanup_hook_handle) -> napi_status;
    napi_async_init: fn(napi_env, napi_value, napi_value, *mut sys::napi_async_context) -> napi_status;
    napi_async_destroy: fn(napi_env, sys::napi_async_context) -> napi_status;
    napi_open_handle_scope: fn(napi_env, *mut sys::napi_handle_scope) -> napi_status;
    napi_close_handle_scope: fn(napi_env, sys::napi_handle_scope) -> napi_status;
    napi_open_callback_scope: fn(
        napi_env,
        napi_value,
        sys::napi_async_context,
        *mut sys::napi_callback_scope
    ) -> napi_status;
    napi_close_callback_scope: fn(napi_env, sys::napi_callback_scope) -> napi_status;
}

/// Returns the functions if this process is Node.js, with event loops of libuv.
pub(super) fn functions(env: Env) -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    if !is_node(env) {
        return None;
    }
    let found = FOUND.get_or_init(|| {
        Functions::find().filter(|found| {
            // SAFETY: the function only returns a value.
            unsafe { (found.uv_version)() >> 16 == MAJOR }
        })
    });
    found.as_ref()
}

/// Runtimes that also claim to be Node.js. Bun has all names of libuv, but ends the process at the first call. Electron
/// runs libuv's loop inside another one.
const OTHER_RUNTIMES: [&str; 4] = ["bun", "deno", "electron", "nw"];

fn is_node(env: Env) -> bool {
    let process =
        env.get_global().and_then(|global| global.get_named_property::<Object>("process"));
    let versions = process.and_then(|process| process.get_named_property::<Object>("versions"));
    versions.is_ok_and(|versions| {
        OTHER_RUNTIMES.iter().all(|name| matches!(versions.has_named_property(name), Ok(false)))
    })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: this only looks up a name that ends with NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Core has no descriptor for an event loop on other systems.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn symbol(_: &CStr) -> Option<*mut c_void> {
    None
}
