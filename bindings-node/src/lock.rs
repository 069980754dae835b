//! The options of locks. Each method starts one operation, whose outcome goes to the given slot.

use std::rc::Rc;

use futures_util::FutureExt;
use napi::bindgen_prelude::{Either, FromNapiValue, Object};
use napi::sys;
use napi_derive::napi;
use redlock::Redlock;
use redlock::ffi::{self, Acquire, Unit};

use crate::errors::{exact_millis, throw};
use crate::number::Number;
use crate::options::lock_args;
use crate::outcome::Outcome;
use crate::runtime::{Runtime, ThreadState};

/// One name of a lock, or several.
pub(crate) struct Names(redlock::Names);

impl Names {
    /// Converts the names that a method of a class received.
    fn from_js(given: Either<String, Vec<String>>) -> Self {
        Self(match given {
            Either::A(name) => name.into(),
            Either::B(names) => names.into(),
        })
    }

    /// Creates the lock on these names with the options of `set`.
    fn with(self, set: &redlock::Lock) -> redlock::Lock {
        ffi::renamed(set, self.0)
    }
}

impl FromNapiValue for Names {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        // Most names are short, and reading them into a buffer takes one native call instead of three.
        let (mut buffer, mut length) = ([0_u8; 256], 0);
        // SAFETY: at most `buffer.len()` bytes are written.
        let status = unsafe {
            sys::napi_get_value_string_utf8(
                env,
                value,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut length,
            )
        };
        // A text that does not fit is cut after a whole character, which leaves at most four bytes of the buffer
        // unused.
        if status == sys::Status::napi_ok
            && length + 4 < buffer.len()
            && let Ok(name) = str::from_utf8(&buffer[..length])
        {
            return Ok(Self(name.into()));
        }
        // SAFETY: the caller fulfils the contract of `from_napi_value`.
        unsafe { Either::from_napi_value(env, value) }.map(Self::from_js)
    }
}

impl ThreadState {
    /// Acquires the lock on these names with the option set of this number. It is sent together with the calls around
    /// it.
    pub(crate) fn acquire(&self, slot: u32, set: Number, names: Names, wait: Option<f64>) {
        let new =
            |set: &redlock::Lock| Acquire::new(&names.with(set), wait, Unit::Milliseconds, None);
        let acquire =
            usize::try_from(set).ok().and_then(|set| self.option_sets.borrow().get(set).map(new));
        match acquire {
            Some(Ok(acquire)) => self.enqueue_acquire(slot, acquire),
            Some(Err(error)) => self.enqueue(slot, async { Outcome::Failed(error) }),
            None => self.enqueue(slot, async { Outcome::Broken }),
        }
    }
}

#[napi]
impl Runtime {
    /// Repeats an acquire for this slot, because its lease ended before the caller could run. It uses the remaining
    /// `wait` of the first attempt. Only valid while outcomes are delivered. False for any other lease.
    #[napi(catch_unwind)]
    pub fn acquire_again(&self, slot: u32, id: i64) -> bool {
        let Some(acquire) = self.thread.delivered(id) else {
            return false;
        };
        if let Some(lease) = self.thread.held.remove(id) {
            ffi::undo(&lease);
        }
        self.thread.enqueue_acquire(slot, acquire);
        self.thread.wake();
        true
    }

    /// Whether an acquire granted this lease in the last delivered batch. False for the lease of an `attach`.
    #[napi(catch_unwind)]
    pub fn is_acquired(&self, id: i64) -> bool {
        self.thread.is_acquired(id)
    }
}

/// The options of locks of one client. A lock exists only in JavaScript, as names and an option set that many locks
/// share.
#[napi]
pub struct OptionSet {
    thread: Rc<ThreadState>,
    /// The lock for which the set was created. Other locks are copies of it with other names.
    lock: redlock::Lock,
    number: usize,
}

impl OptionSet {
    /// Creates a set that JavaScript can identify by its number. Checks all options, and these names.
    pub(crate) fn describe(
        thread: &Rc<ThreadState>,
        client: &Redlock,
        names: Vec<String>,
        options: &Object<'_>,
    ) -> napi::Result<Self> {
        let lock = ffi::lock(client, names, &lock_args(options)?);
        let lock = lock.map_err(|error| throw(thread.env, &error))?;
        let number = thread.option_sets.borrow_mut().insert(lock.clone());
        Ok(Self { thread: Rc::clone(thread), lock, number })
    }
}

impl Drop for OptionSet {
    fn drop(&mut self) {
        self.thread.option_sets.borrow_mut().try_remove(self.number);
    }
}

#[napi]
impl OptionSet {
    /// The number of this set in a row that acquires a lock.
    #[napi(getter, catch_unwind)]
    pub fn number(&self) -> u32 {
        u32::try_from(self.number).unwrap_or(u32::MAX)
    }

    /// The prefix of each name.
    #[napi(getter, catch_unwind)]
    pub fn key_prefix(&self) -> String {
        ffi::key_prefix(&self.lock).to_owned()
    }

    /// The TTL of its leases, in ms.
    #[napi(getter, catch_unwind)]
    pub fn ttl(&self) -> f64 {
        exact_millis(ffi::own_ttl(&self.lock))
    }

    /// Throws if the names are invalid.
    #[napi(catch_unwind)]
    pub fn check(&self, names: Either<String, Vec<String>>) -> napi::Result<()> {
        let checked = ffi::check_names(&Names::from_js(names).with(&self.lock));
        checked.map_err(|error| throw(self.thread.env, &error))
    }

    /// Acquires in a single round. Settles with a lease, or with null if another client holds the lock.
    #[napi(catch_unwind)]
    pub fn try_acquire(&self, slot: u32, names: Either<String, Vec<String>>) {
        self.thread.enqueue_acquire(slot, Acquire::once(&Names::from_js(names).with(&self.lock)));
        self.thread.wake();
    }

    /// Settles with the lease of this token.
    #[napi(catch_unwind)]
    pub fn attach(&self, slot: u32, names: Either<String, Vec<String>>, token: String) {
        let attached = |lease: redlock::Lease| Outcome::Attached(lease.into_handle());
        let attach = Names::from_js(names).with(&self.lock).attach(&token);
        self.thread
            .start(slot, attach.map(move |done| done.map_or_else(Outcome::Failed, attached)));
    }

    /// Returns the Redis keys of the lock on these names.
    #[napi(catch_unwind)]
    pub fn keys(&self, names: Either<String, Vec<String>>) -> Vec<String> {
        Names::from_js(names).with(&self.lock).keys().to_vec()
    }

    /// Deletes the keys of the lock on these names. Settles with whether there were any.
    #[napi(catch_unwind)]
    pub fn force_release(&self, slot: u32, names: Either<String, Vec<String>>) {
        let release = Names::from_js(names).with(&self.lock).force_release();
        self.thread
            .start(slot, release.map(|done| done.map_or_else(Outcome::Failed, Outcome::Yes)));
    }

    /// Settles with an `Inspection`.
    #[napi(catch_unwind)]
    pub fn inspect(&self, slot: u32, names: Either<String, Vec<String>>) {
        let seen = |seen| Outcome::Inspection(Box::new(seen));
        let inspect = Names::from_js(names).with(&self.lock).inspect();
        self.thread.start(slot, inspect.map(move |done| done.map_or_else(Outcome::Failed, seen)));
    }
}
