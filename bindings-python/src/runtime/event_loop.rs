//! Event loops: which one runs here, and each one's completions.
//!
//! Loops that can watch a file descriptor are woken through a socket pair, by one byte, without the GIL. Others get a
//! `call_soon_threadsafe` from the dispatcher's thread. A loop's completions know it by a weak reference only.

use std::future::Future;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyWeakrefReference};
use redlock::ffi::fork_generation;

use super::callback::Callback;
use super::completions::{Bell, Completions};
use super::watch::Watch;
use super::{dispatcher, hosts, lock};
use crate::errors::scarce;
use crate::once::{Once, intern};

pub(crate) use super::completions::Call;

/// One loop's completions.
struct Slot {
    generation: u32,
    number: u64,
    event_loop: usize,
    completions: Py<Completions>,
}

static SLOTS: Mutex<Vec<Slot>> = Mutex::new(Vec::new());

/// The event loop that runs in this thread, trio's too, without importing asyncio for the answer.
pub(crate) fn running(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    match hosts::trio(py)? {
        None => asyncio(py),
        trio => Ok(trio),
    }
}

fn asyncio(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static RUNNING: Once<Py<PyAny>> = Once::new();
    static MODULES: Once<Py<PyAny>> = Once::new();
    if RUNNING.get(py).is_none() {
        let modules = MODULES.import(py, "sys", "modules")?;
        if !modules.contains("asyncio.events")? {
            return Ok(None);
        }
    }
    let found = RUNNING.import(py, "asyncio.events", "_get_running_loop")?.call0()?;
    Ok((!found.is_none()).then_some(found))
}

/// The running loop and its completions, made at first use.
fn here(py: Python<'_>) -> PyResult<(Bound<'_, PyAny>, Py<Completions>)> {
    static RUNNING: Once<Py<PyAny>> = Once::new();
    let event_loop = match hosts::trio(py)? {
        Some(trio) => trio,
        None => RUNNING.import(py, "asyncio", "get_running_loop")?.call0()?,
    };
    let (generation, address) = (fork_generation(), event_loop.as_ptr() as usize);
    let found = lock(&SLOTS)
        .iter()
        .find(|slot| slot.event_loop == address && slot.generation == generation)
        .map(|slot| slot.completions.clone_ref(py));
    let completions = match found {
        Some(completions) => completions,
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
    let (woken, bell) =
        UnixStream::pair().map_err(|error| scarce("an event loop cannot be woken", &error))?;
    woken.set_nonblocking(true)?;
    bell.set_nonblocking(true)?;
    let descriptor = woken.as_raw_fd();
    let mut completions =
        Py::new(py, Completions::new(Bell::Byte(bell), Some(woken), weak.clone_ref(py)))?;
    if event_loop.call_method1("add_reader", (descriptor, &completions)).is_err() {
        dispatcher::start(py)?;
        let bell = Bell::Thread(Box::new(move || {
            dispatcher::send(Box::new(move |py| {
                wake(py, number);
                Ok(())
            }));
        }));
        completions = Py::new(py, Completions::new(bell, None, weak))?;
    }
    let slot = Slot {
        generation: fork_generation(),
        number,
        event_loop: event_loop.as_ptr() as usize,
        completions: completions.clone_ref(py),
    };
    add(py, slot)?;
    Ok(completions)
}

/// Adds a slot; those of closed loops and of the parent of a fork go.
fn add(py: Python<'_>, slot: Slot) -> PyResult<()> {
    let generation = slot.generation;
    let known: Vec<(u64, u32, Py<Completions>)> = {
        let mut slots = lock(&SLOTS);
        slots.push(slot);
        slots
            .iter()
            .map(|slot| (slot.number, slot.generation, slot.completions.clone_ref(py)))
            .collect()
    };
    for (number, made_in, completions) in known {
        let event_loop = completions.get().event_loop.bind(py).upgrade();
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
        let mut slots = lock(&SLOTS);
        let (gone, kept) = slots.drain(..).partition(|slot| slot.number == number);
        *slots = kept;
        gone
    };
    drop(gone);
}

/// Wakes a loop that cannot watch a file descriptor; on the dispatcher's thread.
fn wake(py: Python<'_>, number: u64) {
    let completions = lock(&SLOTS)
        .iter()
        .find(|slot| slot.number == number)
        .map(|slot| slot.completions.clone_ref(py));
    let Some(completions) = completions else { return };
    let event_loop = completions.get().event_loop.bind(py).upgrade();
    let woken = event_loop.map(|it| it.call_method1("call_soon_threadsafe", (completions,)));
    if matches!(woken, Some(Err(_))) {
        // It is over, whoever still has it: a lease that comes now would be kept, and renewed, for nobody.
        forget(number);
    }
}

/// An asyncio future of the running loop for a future on the background thread; `convert` runs on the loop's thread.
pub(crate) fn submit<F, C>(py: Python<'_>, future: F, convert: C) -> PyResult<Bound<'_, PyAny>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    C: FnOnce(Python<'_>, F::Output) -> PyResult<Py<PyAny>> + Send + 'static,
{
    let (event_loop, completions) = here(py)?;
    let asked = event_loop.call_method0(intern!(py, "create_future"))?;
    completions.get().begin(asked.clone().unbind(), future, convert);
    Ok(asked)
}

/// `submit`, with what ends the future.
pub(crate) fn submit_call<F, C>(
    py: Python<'_>,
    future: F,
    convert: C,
) -> PyResult<(Bound<'_, PyAny>, Call)>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    C: FnOnce(Python<'_>, F::Output) -> PyResult<Py<PyAny>> + Send + 'static,
{
    let (event_loop, completions) = here(py)?;
    let asked = event_loop.call_method0(intern!(py, "create_future"))?;
    let id = completions.get().begin(asked.clone().unbind(), future, convert);
    Ok((asked, completions.get().call(id)))
}

/// Calls `callback` on the running loop when the lease is lost, for as long as the watch lives.
pub(crate) fn watch(
    py: Python<'_>,
    lost: impl Future<Output = redlock::Error> + Send + 'static,
    callback: Callback,
) -> PyResult<Arc<Watch>> {
    Ok(here(py)?.1.get().watch(lost, callback))
}
