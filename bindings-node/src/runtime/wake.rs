//! Calling back into one JavaScript thread without keeping anything of it alive.
//!
//! A test runner loads the package anew for each test file, into a context of its own, and drops that context; so does
//! a server that reloads its code. Whatever were held strongly here would keep all of it. So JavaScript's own function
//! is held weakly, except while somebody waits for an outcome; what wakes the event loop belongs to no module at all.

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

/// A function of JavaScript's that may be collected, and is asked for on its own thread alone.
pub(crate) struct Callback {
    env: Env,
    reference: sys::napi_ref,
}

impl Callback {
    /// Of this one, which is held weakly.
    pub(crate) fn new<A: JsValuesTupleIntoVec, R>(
        env: Env,
        function: &Function<'_, A, R>,
    ) -> napi::Result<Self> {
        let mut reference = ptr::null_mut();
        // SAFETY: both belong to the environment whose thread this is; a count of 0 is a weak reference.
        check_status!(unsafe {
            sys::napi_create_reference(env.raw(), function.raw(), 0, &raw mut reference)
        })?;
        Ok(Self { env, reference })
    }

    /// Keeps the function from being collected, or no longer.
    fn hold(&self, on: bool) {
        // SAFETY: called on the JavaScript thread; the reference is deleted by `drop` alone.
        let status = unsafe {
            if on {
                sys::napi_reference_ref(self.env.raw(), self.reference, ptr::null_mut())
            } else {
                sys::napi_reference_unref(self.env.raw(), self.reference, ptr::null_mut())
            }
        };
        debug_assert_eq!(status, sys::Status::napi_ok);
    }

    /// The function, unless it was collected; what it holds is there for as long as the answer is.
    pub(crate) fn get<A: JsValuesTupleIntoVec>(&self) -> Option<Function<'_, A, ()>> {
        let mut function = ptr::null_mut();
        // SAFETY: called on the JavaScript thread, inside of the handle scope of a call from or into JavaScript.
        let status = unsafe {
            sys::napi_get_reference_value(self.env.raw(), self.reference, &raw mut function)
        };
        if status != sys::Status::napi_ok || function.is_null() {
            return None;
        }
        // SAFETY: the value is the function that `new` was given.
        unsafe { Function::from_napi_value(self.env.raw(), function) }.ok()
    }

    /// Calls what `get` found. What it throws is an uncaught exception.
    pub(crate) fn call<A: JsValuesTupleIntoVec>(&self, function: &Function<'_, A, ()>, with: A) {
        let Err(thrown) = function.call(with) else { return };
        // SAFETY: the exception is made and handed over on its own thread.
        unsafe {
            let exception = JsError::from(thrown).into_value(self.env.raw());
            sys::napi_fatal_exception(self.env.raw(), exception);
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // SAFETY: who owns it lives on the JavaScript thread, at the latest until its environment finalizes it.
        unsafe { sys::napi_delete_reference(self.env.raw(), self.reference) };
    }
}

type Work = Box<dyn Fn()>;

/// Runs its work on the JavaScript thread, when any thread asks for it.
pub(crate) struct Wake {
    handle: Arc<ThreadsafeFunctionHandle>,
    /// Whether the process stays for it.
    needed: Arc<AtomicBool>,
}

impl Wake {
    /// Runs this work; the process does not stay for it yet. Tools are shown `resource`.
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
        // SAFETY: `work` and the handle's weak count are given to `ended`, which takes both back; on a failure, below.
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
            // SAFETY: nobody else was given it.
            drop(unsafe { Box::from_raw(work) });
        }
        check_status!(status)?;
        handle.set_raw(raw);
        let wake = Self { handle, needed };
        wake.refer(env, false);
        Ok(wake)
    }

    /// Asks for it; false if the environment has ended.
    pub(crate) fn call(&self) -> bool {
        self.handle.with_read_aborted(|ended| {
            // SAFETY: `ended` would wait for this reader before the function goes.
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

    /// Keeps the process, and the function that hears of it, or neither. To be used on the JavaScript thread alone.
    pub(crate) fn keep(&self, hearer: &Callback, on: bool) {
        if self.needed.swap(on, Ordering::Relaxed) != on {
            hearer.hold(on);
            self.refer(hearer.env, on);
        }
    }

    fn refer(&self, env: Env, on: bool) {
        let raw = self.handle.get_raw();
        // SAFETY: called on the JavaScript thread; the function lives as long as the handle, which is not closed before its environment.
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

/// What tools that look for open handles (Jest's `--detectOpenHandles`) are shown: it can say that nothing is open.
pub(crate) struct Resource {
    /// For as long as the call into the native part that it is made in.
    pub(super) shown: Object<'static>,
    needed: Arc<AtomicBool>,
}

impl Resource {
    /// Of a wake-up that nobody needs yet.
    pub(crate) fn new(env: Env) -> napi::Result<Self> {
        let needed = Arc::<AtomicBool>::default();
        let said = Arc::clone(&needed);
        let has_ref = env.create_function_from_closure::<(), bool, _>("hasRef", move |_| {
            Ok(said.load(Ordering::Relaxed))
        })?;
        let mut resource = Object::new(&env)?;
        resource.set_named_property("hasRef", has_ref)?;
        // SAFETY: used before this call into the native part returns, which is how long the value lives.
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
    // Without an environment: what is left in the queue of one that has ended, after `ended`.
    if env.is_null() {
        return;
    }
    // SAFETY: `work` is what `new` gave, and `ended` was not called yet.
    let work = unsafe { &*work.cast::<Work>() };
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// The function has gone, with the last handle or with its environment.
unsafe extern "C" fn ended(_: sys::napi_env, handle: *mut c_void, work: *mut c_void) {
    // SAFETY: both are what `new` gave, and are taken back here alone.
    unsafe {
        let handle = Weak::<ThreadsafeFunctionHandle>::from_raw(handle.cast());
        if let Some(handle) = handle.upgrade() {
            handle.with_write_aborted(|mut ended| *ended = true);
        }
        drop(Box::from_raw(work.cast::<Work>()));
    }
}

/// A function that calls `then`, unless it was collected: for whoever must not keep it, as a timer would.
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
