//! Wakes a JavaScript thread without keeping its objects alive.
//!
//! A test runner loads the package again for each test file, in a separate context, and drops that context. A server
//! that reloads its code does the same. A strong reference here would keep the whole context alive. The function of
//! JavaScript is therefore held weakly, except while a caller waits for an outcome. The function that wakes the event
//! loop does not belong to a module.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use napi::bindgen_prelude::{
    Env, FromNapiValue, Function, JsObjectValue, JsValue, JsValuesTupleIntoVec, Object,
};
use napi::threadsafe_function::ThreadsafeFunctionHandle;
use napi::{JsError, check_status, sys};
use napi_derive::napi;

/// A JavaScript function that may be collected. Only used on its own thread.
pub(crate) struct Callback {
    env: Env,
    reference: sys::napi_ref,
}

impl Callback {
    /// Holds this function weakly.
    pub(crate) fn new<A: JsValuesTupleIntoVec, R>(
        env: Env,
        function: &Function<'_, A, R>,
    ) -> napi::Result<Self> {
        let mut reference = ptr::null_mut();
        // SAFETY: both belong to the environment of this thread. A count of 0 is a weak reference.
        check_status!(unsafe {
            sys::napi_create_reference(env.raw(), function.raw(), 0, &raw mut reference)
        })?;
        Ok(Self { env, reference })
    }

    /// Keeps the function from being collected, or stops doing so.
    fn keep_alive(&self, on: bool) {
        // SAFETY: this is the JavaScript thread, and only `drop` deletes the reference.
        let status = unsafe {
            if on {
                sys::napi_reference_ref(self.env.raw(), self.reference, ptr::null_mut())
            } else {
                sys::napi_reference_unref(self.env.raw(), self.reference, ptr::null_mut())
            }
        };
        debug_assert_eq!(status, sys::Status::napi_ok);
    }

    /// Returns the function, unless it was collected. What the function holds stays alive as long as the result.
    pub(crate) fn get<A: JsValuesTupleIntoVec>(&self) -> Option<Function<'_, A, ()>> {
        let mut function = ptr::null_mut();
        // SAFETY: this is the JavaScript thread, in the handle scope of a call from or into JavaScript.
        let status = unsafe {
            sys::napi_get_reference_value(self.env.raw(), self.reference, &raw mut function)
        };
        if status != sys::Status::napi_ok || function.is_null() {
            return None;
        }
        // SAFETY: the value is the function that `new` received.
        unsafe { Function::from_napi_value(self.env.raw(), function) }.ok()
    }

    /// Calls the function from `get`. An error that it throws becomes an uncaught exception.
    pub(crate) fn call<A: JsValuesTupleIntoVec>(&self, function: &Function<'_, A, ()>, with: A) {
        let Err(thrown) = function.call(with) else { return };
        // SAFETY: the exception is created and passed on its own thread.
        unsafe {
            let exception = JsError::from(thrown).into_value(self.env.raw());
            sys::napi_fatal_exception(self.env.raw(), exception);
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // SAFETY: the owner lives on the JavaScript thread, at most until the environment finalizes it.
        unsafe { sys::napi_delete_reference(self.env.raw(), self.reference) };
    }
}

type Work = Box<dyn Fn()>;

/// Runs its work on the JavaScript thread when any thread requests it.
pub(crate) struct Wake {
    handle: Arc<ThreadsafeFunctionHandle>,
    /// Whether it keeps the process alive.
    needed: Arc<AtomicBool>,
}

impl Wake {
    /// Runs this work. It does not keep the process alive yet. Tools see `resource`.
    pub(crate) fn new(
        env: Env,
        resource: &Resource,
        work: impl Fn() + 'static,
    ) -> napi::Result<Self> {
        let (needed, resource) = (Arc::clone(&resource.needed), resource.shown);
        let name = env.create_string("redlock")?;
        let handle = ThreadsafeFunctionHandle::null();
        let work: *mut Work = Box::into_raw(Box::new(Box::new(work)));
        let mut raw = ptr::null_mut();
        // SAFETY: `ended` takes back `work` and the weak count of the handle. On failure, `work` is freed below.
        let status = unsafe {
            sys::napi_create_threadsafe_function(
                env.raw(),
                ptr::null_mut(),
                resource.raw(),
                name.raw(),
                0,
                1,
                Arc::downgrade(&handle).into_raw().cast_mut().cast(),
                Some(ended),
                work.cast(),
                Some(run),
                &raw mut raw,
            )
        };
        if status != sys::Status::napi_ok {
            // SAFETY: no other code received it.
            drop(unsafe { Box::from_raw(work) });
        }
        check_status!(status)?;
        handle.set_raw(raw);
        let wake = Self { handle, needed };
        wake.refer(env, false);
        Ok(wake)
    }

    /// Requests the work. False if the environment has ended.
    pub(crate) fn call(&self) -> bool {
        self.handle.with_read_aborted(|ended| {
            // SAFETY: `ended` waits for this reader before the function is freed.
            let call = || unsafe {
                sys::napi_call_threadsafe_function(
                    self.handle.get_raw(),
                    ptr::null_mut(),
                    sys::ThreadsafeFunctionCallMode::nonblocking,
                )
            };
            !ended && call() == sys::Status::napi_ok
        })
    }

    /// Whether the environment has not ended.
    pub(crate) fn alive(&self) -> bool {
        self.handle.with_read_aborted(|ended| !ended)
    }

    /// Keeps the process and the callback for outcomes alive, or stops doing so. JavaScript thread only.
    pub(crate) fn keep_alive(&self, settle_callback: &Callback, on: bool) {
        if self.needed.swap(on, Ordering::Relaxed) != on {
            settle_callback.keep_alive(on);
            self.refer(settle_callback.env, on);
        }
    }

    fn refer(&self, env: Env, on: bool) {
        let raw = self.handle.get_raw();
        // SAFETY: this is the JavaScript thread. The function lives as long as the handle, which is closed with its
        // environment at the earliest.
        let status = unsafe {
            if on {
                sys::napi_ref_threadsafe_function(env.raw(), raw)
            } else {
                sys::napi_unref_threadsafe_function(env.raw(), raw)
            }
        };
        debug_assert_eq!(status, sys::Status::napi_ok);
    }
}

/// The object that tools for open handles, such as Jest's `--detectOpenHandles`, inspect. It can report that nothing is
/// open.
pub(crate) struct Resource {
    /// Valid during the native call that creates it.
    pub(super) shown: Object<'static>,
    needed: Arc<AtomicBool>,
}

impl Resource {
    /// Creates the object for a wake-up that does not keep the process alive yet.
    pub(crate) fn new(env: Env) -> napi::Result<Self> {
        let needed = Arc::<AtomicBool>::default();
        let shared = Arc::clone(&needed);
        let has_ref = env.create_function_from_closure::<(), bool, _>("hasRef", move |_| {
            Ok(shared.load(Ordering::Relaxed))
        })?;
        let mut resource = Object::new(&env)?;
        resource.set_named_property("hasRef", has_ref)?;
        // SAFETY: the value is used before this native call returns, and lives that long.
        let shown = unsafe { Object::from_napi_value(env.raw(), resource.raw()) }?;
        Ok(Self { shown, needed })
    }
}

unsafe extern "C" fn run(
    env: sys::napi_env,
    _: sys::napi_value,
    work: *mut c_void,
    _: *mut c_void,
) {
    // The environment is null for a call that was still queued when it ended. `ended` has then already run.
    if env.is_null() {
        return;
    }
    // SAFETY: `work` comes from `new`, and `ended` was not called yet.
    let work = unsafe { &*work.cast::<Work>() };
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// Called when the function is freed, with the last handle or with its environment.
unsafe extern "C" fn ended(_: sys::napi_env, handle: *mut c_void, work: *mut c_void) {
    // SAFETY: both come from `new`, and are only taken back here.
    unsafe {
        let handle = Weak::<ThreadsafeFunctionHandle>::from_raw(handle.cast());
        if let Some(handle) = handle.upgrade() {
            handle.with_write_aborted(|mut ended| *ended = true);
        }
        let work = Box::from_raw(work.cast::<Work>());
        // A panic while dropping it must not unwind into Node.js.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
    }
}

/// Returns a function that calls `then`, unless that was collected. For callers that must not keep it alive, such as
/// timers.
#[napi(catch_unwind)]
pub fn weakly<'env>(
    env: &'env Env,
    #[napi(ts_arg_type = "() => void")] then: Function<'env, (), ()>,
) -> napi::Result<Function<'env, (), ()>> {
    let then = Callback::new(*env, &then)?;
    env.create_function_from_closure("weakly", move |_| {
        then.get::<()>().map_or(Ok(()), |function| function.call(()))
    })
}
