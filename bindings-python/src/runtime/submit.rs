//! Futures of the library as futures of the event loop that runs here.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use pyo3::prelude::*;

use super::completions::Completions;
use super::event_loop::here;
use crate::once::intern;

pub(crate) use super::calls::Call;

/// An asyncio future of the running loop for a future on the background thread; `convert` runs on the loop's thread.
pub(crate) fn submit<F, C>(py: Python<'_>, future: F, convert: C) -> PyResult<Bound<'_, PyAny>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    C: FnOnce(Python<'_>, F::Output) -> PyResult<Py<PyAny>> + Send + 'static,
{
    let (event_loop, completions) = here(py)?;
    let asked = completions.get().future(&event_loop)?;
    let begun = completions.get().begin(asked.clone().unbind(), None, future, convert);
    look_later(&event_loop, completions, begun.1)?;
    Ok(asked)
}

/// `submit`, with what ends the future; `kept` ends with that, or with the loop.
pub(crate) fn submit_call<F, C>(
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
    let asked = completions.get().future(&event_loop)?;
    let (id, later) = completions.get().begin(asked.clone().unbind(), Some(kept), future, convert);
    let call = completions.get().call(id);
    look_later(&event_loop, completions, later)?;
    Ok((asked, call))
}

/// What several tasks ask in one turn of the loop goes out together, when that is over.
fn look_later(
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
