//! Finds the completions of the running event loop.
//!
//! A loop watches one descriptor with `add_reader`, if it can ([`by_descriptor`]). With epoll, it is readable if a
//! connection of the loop is, or a socket pair. Otherwise it is the socket pair, through which other threads wake the
//! loop by one byte, without the GIL. Other loops get a `call_soon_threadsafe` from the thread of `waker`. A loop's
//! completions know it by a weak reference only. Leases that a loop was granted but did not receive are released when
//! it is closed.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyWeakrefReference};
use redlock::ffi::{descriptor_generation, fork_generation};

use super::completions::Completions;
use super::interpreter_end::Inside;
use super::loop_future::LoopFuture;
use super::loss_callback::Callback;
use super::origin::call_without_context;
use super::queue::WakeUp;
use super::watch::{CallbackThread, Watch};
use super::{async_backends, lock, pipe, waker};
use crate::errors::{scarce, tried};
use crate::once_cell::Once;

pub(crate) use super::async_backends::running;

/// The completions of one loop.
struct Slot {
    generation: u32,
    /// That of the descriptor that the loop watches.
    descriptors: u32,
    number: u64,
    /// Weak, because the completions have futures that refer to their loop. The loop owns them, by its [`Reader`].
    completions: Py<PyWeakrefReference>,
}

impl Slot {
    fn completions<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Completions>> {
        self.completions.bind(py).upgrade()?.cast_into().ok()
    }
}

/// The function that a loop calls when completions are ready. The loop drops it when it is closed.
#[pyclass(frozen)]
struct Reader {
    number: u64,
    completions: Py<Completions>,
    /// Whether it is removed after one call.
    once: bool,
    /// Whether it is dropped for another reason than the end of its loop.
    over: AtomicBool,
}

#[pymethods]
impl Reader {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.over.store(self.once, Ordering::Relaxed);
        self.completions.get().resume_tasks(py)
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.completions)
    }
}

impl Reader {
    fn new(
        py: Python<'_>,
        number: u64,
        completions: &Py<Completions>,
        once: bool,
    ) -> PyResult<Py<Self>> {
        let (completions, over) = (completions.clone_ref(py), AtomicBool::new(false));
        Py::new(py, Self { number, completions, once, over })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !*self.over.get_mut() {
            // A lease that arrives now would be renewed without a holder.
            forget(self.number);
        }
    }
}

pub(super) fn make_class(py: Python<'_>) {
    drop(py.get_type::<Reader>());
}

/// A timeout in seconds that is never reached.
const FAR_FUTURE: f64 = 1e9;

static LOOP_SLOTS: Mutex<Vec<Slot>> = Mutex::new(Vec::new());

/// Returns the running loop and its completions, which are created at the first use.
pub(super) fn here(py: Python<'_>) -> PyResult<(Bound<'_, PyAny>, Py<Completions>)> {
    static RUNNING: Once<Py<PyAny>> = Once::new();
    let event_loop = match async_backends::trio(py)? {
        Some(trio) => trio,
        None => RUNNING.import(py, "asyncio", "get_running_loop")?.call0()?,
    };
    let found = lock(&LOOP_SLOTS)
        .iter()
        .filter(|slot| slot.descriptors == descriptor_generation())
        .filter_map(|slot| slot.completions(py))
        .find(|completions| completions.get().is_of(&event_loop));
    let completions = match found {
        Some(completions) => completions.unbind(),
        None => make(&event_loop)?,
    };
    Ok((event_loop, completions))
}

fn make(event_loop: &Bound<'_, PyAny>) -> PyResult<Py<Completions>> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let py = event_loop.py();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let forget = PyCFunction::new_closure(py, None, None, move |_, _| forget(number))?;
    let weak = PyWeakrefReference::new_with(event_loop, forget)?.unbind();
    let by_descriptor = by_descriptor(event_loop, number, &weak)?;
    let completions = by_descriptor.map_or_else(|| by_thread(event_loop, number, weak), Ok)?;
    let slot = Slot {
        generation: fork_generation(),
        descriptors: descriptor_generation(),
        number,
        completions: PyWeakrefReference::new(completions.bind(py))?.unbind(),
    };
    add(py, slot)?;
    Ok(completions)
}

/// Creates the completions of a loop that watches a descriptor. Returns `None` if the loop or the system does not
/// support that.
fn by_descriptor(
    event_loop: &Bound<'_, PyAny>,
    number: u64,
    weak: &Py<PyWeakrefReference>,
) -> PyResult<Option<Py<Completions>>> {
    let py = event_loop.py();
    let pair = pipe::pair().map_err(|error| scarce("an event loop cannot be woken", &error))?;
    let Some((woken, ring)) = pair else { return Ok(None) };
    let suits = LoopFuture::suits(event_loop)?;
    waker::prepare(wake);
    let completions =
        Completions::new(WakeUp::Byte(ring, number), Some(woken), weak.clone_ref(py), suits);
    let descriptor = completions.descriptor();
    let completions = Py::new(py, completions)?;
    let reader = Reader::new(py, number, &completions, false)?;
    if descriptor_generation() != fork_generation() {
        // The loop may still know the number, as that of a descriptor that the program has closed.
        tried(py, event_loop.call_method1("remove_reader", (descriptor,)))?;
    }
    // This call releases the GIL.
    let _inside = Inside::enter();
    let adding = call_without_context(event_loop, "add_reader", descriptor, reader.bind(py));
    let added = tried(py, adding);
    if let Ok(Some(_)) = added {
        return Ok(Some(completions));
    }
    reader.get().over.store(true, Ordering::Relaxed);
    added.map(|_| None)
}

/// Creates the completions of any other loop. The thread of `waker` calls its `call_soon_threadsafe`.
fn by_thread(
    event_loop: &Bound<'_, PyAny>,
    number: u64,
    weak: Py<PyWeakrefReference>,
) -> PyResult<Py<Completions>> {
    let py = event_loop.py();
    waker::start(py, wake)?;
    let completions = Completions::new(
        WakeUp::Thread(Box::new(move || waker::wake_later(number))),
        None,
        weak,
        LoopFuture::suits(event_loop)?,
    );
    let completions = Py::new(py, completions)?;
    // Never called. The loop owns it.
    let reader = Reader::new(py, number, &completions, false)?;
    let keeping = call_without_context(event_loop, "call_later", FAR_FUTURE, reader.bind(py));
    tried(py, keeping)?;
    Ok(completions)
}

/// Adds a slot. Removes the slots of closed loops and of a forked child's parent.
fn add(py: Python<'_>, slot: Slot) -> PyResult<()> {
    let generation = slot.generation;
    let known: Vec<(u64, u32, Option<Bound<'_, Completions>>)> = {
        let mut slots = lock(&LOOP_SLOTS);
        slots.push(slot);
        slots.iter().map(|slot| (slot.number, slot.generation, slot.completions(py))).collect()
    };
    for (number, made_in, completions) in known {
        let event_loop = completions.and_then(|it| it.get().event_loop.bind(py).upgrade());
        let closed = event_loop
            .map_or(Ok(true), |event_loop| event_loop.call_method0("is_closed")?.is_truthy())?;
        if closed || made_in != generation {
            forget(number);
        }
    }
    Ok(())
}

fn forget(number: u64) {
    let gone: Vec<Slot> = {
        let mut slots = lock(&LOOP_SLOTS);
        let (gone, kept) = slots.drain(..).partition(|slot| slot.number == number);
        *slots = kept;
        gone
    };
    drop(gone);
}

/// Wakes a loop that cannot watch a file descriptor. Runs on the thread of `waker`.
fn wake(py: Python<'_>, number: u64) {
    let completions = lock(&LOOP_SLOTS)
        .iter()
        .find(|slot| slot.number == number)
        .and_then(|slot| slot.completions(py));
    let Some(completions) = completions.map(Bound::unbind) else { return };
    if let Some(event_loop) = completions.get().event_loop.bind(py).upgrade() {
        // If the loop has ended, the reader is dropped without a call.
        let _ = Reader::new(py, number, &completions, true)
            .map(|reader| event_loop.call_method1("call_soon_threadsafe", (reader,)));
    }
}

/// Returns the thread that calls callbacks that are registered now.
pub(crate) fn callback_thread(py: Python<'_>) -> PyResult<CallbackThread> {
    Ok(here(py)?.1.get().callback_thread())
}

/// Calls `callback` on the running loop when the lease is lost, for as long as the watch lives.
pub(crate) fn watch(
    py: Python<'_>,
    lost: impl Future<Output = redlock::Error> + Send + 'static,
    callback: Callback,
) -> PyResult<Arc<Watch>> {
    Ok(here(py)?.1.get().watch(lost, callback))
}
