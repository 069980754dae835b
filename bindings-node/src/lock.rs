//! Describes what to lock; each call starts one operation, whose outcome goes to the slot that is given.

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
use crate::runtime::{Local, Runtime};

/// One name of a lock, or several.
pub(crate) struct Names(redlock::Names);

impl Names {
    /// As the exports of a class take them.
    fn of(given: Either<String, Vec<String>>) -> Self {
        Self(match given {
            Either::A(name) => name.into(),
            Either::B(names) => names.into(),
        })
    }

    /// The lock on these names with the options of that one.
    fn with(self, set: &redlock::Lock) -> redlock::Lock {
        ffi::renamed(set, self.0)
    }
}

impl FromNapiValue for Names {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        // Most names are short text: in one call, not three.
        let (mut room, mut length) = ([0_u8; 256], 0);
        // SAFETY: at most `room.len()` bytes are written.
        let status = unsafe {
            sys::napi_get_value_string_utf8(
                env,
                value,
                room.as_mut_ptr().cast(),
                room.len(),
                &raw mut length,
            )
        };
        // Of a longer text only the characters that fit are written.
        if status == sys::Status::napi_ok
            && length + 4 < room.len()
            && let Ok(name) = str::from_utf8(&room[..length])
        {
            return Ok(Self(name.into()));
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { Either::from_napi_value(env, value) }.map(Self::of)
    }
}

impl Local {
    /// Acquires the lock on these names with the options of this number; sent with the calls around it.
    pub(crate) fn acquire(&self, slot: u32, set: Number, names: Names, wait: Option<f64>) {
        let new =
            |set: &redlock::Lock| Acquire::new(&names.with(set), wait, Unit::Milliseconds, None);
        let acquire =
            usize::try_from(set).ok().and_then(|set| self.option_sets.borrow().get(set).map(new));
        match acquire {
            Some(Ok(acquire)) => self.ask(slot, acquire),
            Some(Err(error)) => self.enqueue(slot, async { Outcome::Failed(error) }),
            None => self.enqueue(slot, async { Outcome::Broken }),
        }
    }
}

#[napi]
impl Runtime {
    /// Asks again, for this slot, for a lease that ended before its caller could run; within the budget of the first
    /// time. Only while outcomes are delivered. False for any other lease.
    #[napi(catch_unwind)]
    pub fn acquire_again(&self, slot: u32, id: i64) -> bool {
        let Some(acquire) = self.local.delivered(id) else {
            return false;
        };
        self.local.held.remove(id).map(|lease| lease.detach());
        self.local.ask(slot, acquire);
        self.local.wake();
        true
    }
}

/// The options of locks of one client. Locks are JavaScript's own: names, and such a set that many of them share.
#[napi]
pub struct OptionSet {
    local: Rc<Local>,
    /// The lock that it was made for: all others are this one, renamed.
    lock: redlock::Lock,
    number: usize,
}

impl OptionSet {
    /// One that JavaScript can name by a number from now on. Every option is checked, and these names with them.
    pub(crate) fn describe(
        local: &Rc<Local>,
        client: &Redlock,
        names: Vec<String>,
        options: &Object<'_>,
    ) -> napi::Result<Self> {
        let lock = ffi::lock(client, names, &lock_args(options)?);
        let lock = lock.map_err(|error| throw(local.env, &error))?;
        let number = local.option_sets.borrow_mut().insert(lock.clone());
        Ok(Self { local: Rc::clone(local), lock, number })
    }
}

impl Drop for OptionSet {
    fn drop(&mut self) {
        self.local.option_sets.borrow_mut().try_remove(self.number);
    }
}

#[napi]
impl OptionSet {
    /// What a row that acquires a lock with these options calls them.
    #[napi(getter, catch_unwind)]
    pub fn number(&self) -> u32 {
        u32::try_from(self.number).unwrap_or(u32::MAX)
    }

    /// What goes before each name.
    #[napi(getter, catch_unwind)]
    pub fn key_prefix(&self) -> String {
        ffi::key_prefix(&self.lock).to_owned()
    }

    /// The ttl of its leases, in milliseconds.
    #[napi(getter, catch_unwind)]
    pub fn ttl(&self) -> f64 {
        exact_millis(ffi::own_ttl(&self.lock))
    }

    /// Throws the rule that the names break, if they break one.
    #[napi(catch_unwind)]
    pub fn check(&self, names: Either<String, Vec<String>>) -> napi::Result<()> {
        let checked = ffi::check_names(&Names::of(names).with(&self.lock));
        checked.map_err(|error| throw(self.local.env, &error))
    }

    /// As a row that acquires, or settles with null: somebody else holds it.
    #[napi(catch_unwind)]
    pub fn try_acquire(&self, slot: u32, names: Either<String, Vec<String>>) {
        self.local.ask(slot, Acquire::once(&Names::of(names).with(&self.lock)));
        self.local.wake();
    }

    /// As a row that acquires, for the lease of that token.
    #[napi(catch_unwind)]
    pub fn attach(&self, slot: u32, names: Either<String, Vec<String>>, token: String) {
        let attached = |lease: redlock::Lease| Outcome::Attached(lease.into_handle());
        let attach = Names::of(names).with(&self.lock).attach(&token);
        self.local.start(slot, attach.map(move |done| done.map_or_else(Outcome::Failed, attached)));
    }

    /// Settles with an `Inspection`.
    #[napi(catch_unwind)]
    pub fn inspect(&self, slot: u32, names: Either<String, Vec<String>>) {
        let seen = |seen| Outcome::Inspection(Box::new(seen));
        let inspect = Names::of(names).with(&self.lock).inspect();
        self.local.start(slot, inspect.map(move |done| done.map_or_else(Outcome::Failed, seen)));
    }
}
