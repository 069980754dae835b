//! Identifies the owner of a lease: a thread, task or greenlet.
//!
//! Tasks and greenlets get a number at their first use of this package. Their address is not enough, because a later
//! object may have the same one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use redlock::ffi::Owner;

use crate::once_cell::{Once, intern};
use crate::runtime::{ByNumber, async_backends, event_loop, greenlets, lock};

/// How many objects are known at least before those that ended are forgotten.
const MIN_KNOWN: usize = 256;

/// A task or greenlet with its number.
struct Known {
    /// Weak, so that it does not keep the task alive. It is dead if another object has the address now.
    object: Py<PyWeakrefReference>,
    number: u64,
}

/// The known tasks and greenlets by their addresses.
#[derive(Default)]
struct AllKnown {
    by_address: ByNumber<Known>,
    /// The number of entries at which dead ones are removed. At least half of them were added since the last time.
    limit: usize,
}

/// Locked with the GIL held and never across a call into Python: see `runtime`.
static KNOWN_OWNERS: LazyLock<Mutex<AllKnown>> = LazyLock::new(Mutex::default);

/// The thread, task or greenlet that calls us, with its word for messages. It identifies the owner of a lease.
pub(crate) fn current(py: Python<'_>) -> PyResult<Owner> {
    static CURRENT_TASK: Once<Py<PyAny>> = Once::new();
    if let Some(trio) = async_backends::trio(py)? {
        return task(&trio.call_method0(intern!(py, "current_task"))?);
    }
    if let Some(event_loop) = event_loop::running(py)? {
        let current = CURRENT_TASK.import(py, "asyncio", "current_task")?.call1((event_loop,))?;
        if !current.is_none() {
            return task(&current);
        }
    }
    if let Some(greenlets) = greenlets::in_use(py)? {
        return Ok(Owner("this greenlet", number(&greenlets.current()?)?));
    }
    let mut hasher = DefaultHasher::new();
    // A number that no later thread gets.
    thread::current().id().hash(&mut hasher);
    Ok(Owner("this thread", hasher.finish()))
}

fn task(task: &Bound<'_, PyAny>) -> PyResult<Owner> {
    Ok(Owner("this task", number(task)?))
}

/// Returns the number of an object, which no other object ever has.
fn number(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let (py, address) = (object.py(), object.as_ptr() as u64);
    if let Some(known) = lock(&KNOWN_OWNERS).by_address.get(&address)
        && known.is_alive(py)
    {
        return Ok(known.number);
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let weak = match PyWeakrefReference::new(object) {
        Ok(weak) => weak.unbind(),
        // A task class of the program. It gets another number each time, so no message takes it for the holder.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => return Ok(number),
        Err(error) => return Err(error),
    };
    let old = lock(&KNOWN_OWNERS).add(py, address, Known { object: weak, number });
    drop(old);
    Ok(number)
}

impl Known {
    fn is_alive(&self, py: Python<'_>) -> bool {
        self.object.bind(py).upgrade().is_some()
    }
}

impl AllKnown {
    /// Adds an object. Returns what it replaces, and the objects that ended, if there are many.
    fn add(&mut self, py: Python<'_>, address: u64, known: Known) -> Vec<Known> {
        let mut old: Vec<_> = self.by_address.insert(address, known).into_iter().collect();
        if self.by_address.len() > self.limit.max(MIN_KNOWN) {
            old.extend(self.by_address.extract_if(|_, known| !known.is_alive(py)).map(|it| it.1));
            self.limit = self.by_address.len() * 2;
        }
        old
    }
}
