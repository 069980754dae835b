//! Passes log events of the core to `logging`. They go as plain data through the queue of [`LOG`] to
//! `redlock._log`. That module sets the wanted levels here.

use std::any::Any;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use redlock::ffi::{self, Field, Level, Record, Topic};

use super::dispatcher::LOG;
use super::origin::{self, CallContext, CallSite, Line};
use crate::once_cell::Once;

/// The function that creates the loggers and returns the function that logs a record.
static START: Once<Py<PyAny>> = Once::new();
/// The function that logs a record.
static EMIT: Once<Py<PyAny>> = Once::new();

/// Sets the function that starts logging. A process calls it until it has returned once, and a forked child again.
#[pyfunction]
#[pyo3(name = "_log_by", signature = (start: "collections.abc.Callable[[], object]") -> "None")]
pub(crate) fn log_by(py: Python<'_>, start: Py<PyAny>) {
    START.set(py, start);
}

/// Sets the lowest level that the logger of this topic wants, as a `logging` level.
#[pyfunction]
#[pyo3(name = "_log_from", signature = (topic: "str", level: "int") -> "None")]
pub(crate) fn log_from(topic: &str, level: i64) -> PyResult<()> {
    let known = Topic::ALL.into_iter().find(|known| known.as_str() == topic);
    let topic = known.ok_or_else(|| PyValueError::new_err(topic.to_owned()))?;
    let levels = [Level::Debug, Level::Info, Level::Warn, Level::Error];
    origin::set_logged(topic, level <= i64::from(number(Level::Warn)));
    ffi::want(topic, levels.into_iter().find(|known| i64::from(number(*known)) >= level));
    Ok(())
}

/// Starts logging the events of this process. A start that was interrupted is repeated by the next call.
pub(crate) fn start(py: Python<'_>) -> PyResult<()> {
    if (LOG.start(py)? || EMIT.get(py).is_none())
        && let Some(start) = START.get(py)
    {
        let emit = start.call0(py)?;
        EMIT.set(py, emit);
        ffi::listen(leave);
    }
    Ok(())
}

/// Queues a record, on the thread of the event. DEBUG records get less room, so that they do not displace warnings.
fn leave(record: Record) {
    let noted: Option<&dyn Any> = record.call_site.as_deref().map(|site| site as _);
    let of_call = matches!(record.topic, Topic::Acquire | Topic::Lease);
    let site = noted.and_then(|site| site.downcast_ref::<CallSite>()).cloned();
    let site = site.or_else(|| of_call.then(origin::current).flatten());
    // Upgraded here, because the lease may not exist any more when the record is logged.
    let origin = site.map(|site| (site.context(), site.line));
    let share = if record.level == Level::Debug { 2 } else { 1 };
    LOG.send_if_room(
        0,
        Box::new(move |py| emit(py, &record, origin.as_ref())),
        tell_of_dropped,
        share,
    );
}

/// Reports the exception of a callback. Printing it may block, and must not delay other callbacks.
pub(super) fn report(error: PyErr) {
    let report = move |py: Python<'_>| {
        error.write_unraisable(py, None);
        Ok(())
    };
    LOG.send_if_room(0, Box::new(report), tell_of_dropped, 1);
}

/// The context variables and the line of a call.
type Origin = (Option<CallContext>, Option<Arc<Line>>);

/// Logs a record, on a Python thread.
fn emit(py: Python<'_>, record: &Record, origin: Option<&Origin>) -> PyResult<()> {
    let Some(emit) = EMIT.get(py) else { return Ok(()) };
    let (mut args, values) = (Vec::new(), PyDict::new(py));
    for (name, part) in &record.parts {
        args.push(part.into_pyobject(py)?.into_any());
        values.set_item(*name, part)?;
    }
    for (name, field) in &record.fields {
        let value = match field {
            Field::Text(text) => text.into_pyobject(py)?.into_any(),
            Field::Number(number) => number.into_pyobject(py)?.into_any(),
            Field::Count(count) => count.into_pyobject(py)?.into_any(),
            Field::Nothing => py.None().into_bound(py),
        };
        values.set_item(*name, &value)?;
        if *field != Field::Nothing {
            args.push(value);
        }
    }
    let (topic, level) = (record.topic.as_str(), number(record.level));
    let args = PyTuple::new(py, args)?;
    let (context, line) =
        origin.map_or((None, None), |(context, line)| (context.as_ref(), line.as_ref()));
    let context = context.and_then(|context| context.get(py));
    let line = line.map(|line| (&line.file, line.number, &line.function));
    emit.call1(py, (topic, level, record.percent_template(), args, values, line, context)).map(drop)
}

fn tell_of_dropped(py: Python<'_>, count: u64) -> PyResult<()> {
    let record = Record {
        level: Level::Warn,
        topic: Topic::Client,
        template: "{dropped} log records were dropped here: a handler of this log is too slow for them",
        parts: vec![("dropped", count.to_string())],
        fields: Vec::new(),
        call_site: None,
    };
    emit(py, &record, None)
}

/// Converts to a `logging` level.
fn number(level: Level) -> u8 {
    match level {
        Level::Error => 40,
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug => 10,
    }
}
