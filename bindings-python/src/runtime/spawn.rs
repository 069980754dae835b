//! Runs futures of the core for the running event loop, and returns an asyncio future for each.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use pyo3::prelude::*;

use super::completions::Completions;
use super::event_loop::here;
use super::guarded;
use crate::once_cell::intern;

pub(crate) use super::pending_calls::Call;

/// Runs a future on the loop's thread, or on the background thread if the loop cannot watch connections. Returns an
/// asyncio future of the running loop. `convert` runs on the loop's thread.
pub(crate) fn spawn<F, C>(py: Python<'_>, future: F, convert: C) -> PyResult<Bound<'_, PyAny>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    C: FnOnce(Python<'_>, F::Output) -> PyResult<Py<PyAny>> + Send + 'static,
{
    let (event_loop, completions) = here(py)?;
    let loop_future = completions.get().future(&event_loop)?;
    // A panic reports closed descriptors. It must not reach the program.
    let (_, later) =
        guarded(|| Ok(completions.get().run(loop_future.clone().unbind(), None, future, convert)))?;
    flush_later(&event_loop, completions, later)?;
    Ok(loop_future)
}

/// Like `spawn`, but also returns a handle that cancels the future. `kept` is dropped with the handle, or with the
/// loop.
pub(crate) fn spawn_call<F, C>(
    py: Python<'_>,
    future: F,
    kept: Arc<dyn Any + Send + Sync>,
    convert: C,
) -> PyResult<(Bound<'_, PyAny>, Call)>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    C: FnOnce(Python<'_>, F::Output) -> PyResult<Py<PyAny>> + Send + 'static,
{
    let (event_loop, completions) = here(py)?;
    let loop_future = completions.get().future(&event_loop)?;
    let (id, later) = guarded(|| {
        Ok(completions.get().run(loop_future.clone().unbind(), Some(kept), future, convert))
    })?;
    let call = completions.get().call(id);
    flush_later(&event_loop, completions, later)?;
    Ok((loop_future, call))
}

/// Schedules a flush at the end of the loop iteration, so that the commands of several tasks are sent together.
fn flush_later(
    event_loop: &Bound<'_, PyAny>,
    completions: Py<Completions>,
    later: bool,
) -> PyResult<()> {
    if later {
        let py = event_loop.py();
        event_loop.call_method1(intern!(py, "call_soon"), (completions,))?;
    }
    Ok(())
}
