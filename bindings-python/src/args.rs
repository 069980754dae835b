//! Converts Python arguments: times in seconds or as timedelta, and one name or several.
//!
//! Only the type of a value is checked here. The core checks the value.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyEllipsis, PyList, PyString, PyTuple};
use redlock::Pem;
use redlock::ffi::{Unit, Value};

use crate::errors::{check, invalid, tried};

/// The argument `wait=` in seconds. `None` uses the lock's option, and infinity waits forever.
pub(crate) type Wait = Option<f64>;

/// Converts a time to seconds. `None` stays `None`.
pub(crate) fn seconds(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    let Some(value) = value else { return Ok(None) };
    if !is_bool(value) {
        if let Some(number) = tried(value.py(), value.extract::<f64>())? {
            return Ok(Some(number));
        }
        let total = value.call_method0("total_seconds").and_then(|total| total.extract());
        if let Some(total) = tried(value.py(), total)? {
            return Ok(Some(total));
        }
    }
    Err(invalid(format!(
        "{name} is {}: it must be a number of seconds or a timedelta",
        shown(value)
    )))
}

/// Python and numpy treat True and False as numbers, but a bool in place of a number is a mistake.
fn is_bool(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBool>() || matches!(class(value).as_str(), "bool" | "bool_")
}

/// The argument `timeout=` of a shutdown or a ping.
#[derive(Clone, Copy)]
pub(crate) struct Timeout(pub(crate) Duration);

impl Timeout {
    /// The default of a shutdown.
    pub(crate) const OF_SHUTDOWN: Self = Self(Duration::from_secs(10));
    /// The default of a ping.
    pub(crate) const OF_PING: Self = Self(Duration::from_secs(1));
}

impl FromPyObject<'_, '_> for Timeout {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        time("timeout", value).map(Self)
    }
}

/// The argument `nodes=`, which is required. Errors of other arguments are raised first, because an error such as that
/// of `Redlock(host="localhost")` has a more specific message.
pub(crate) enum Nodes<'py> {
    NotGiven,
    Given(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Nodes<'py> {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(value.to_owned()))
    }
}

/// The argument `seconds=`, which has no default.
#[derive(Clone, Copy)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromPyObject<'_, '_> for Seconds {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        time("seconds", value).map(Self)
    }
}

/// Converts a required time.
fn time(name: &str, value: Borrowed<'_, '_, PyAny>) -> PyResult<Duration> {
    let Some(given) = seconds(name, (!value.is_none()).then_some(&*value))? else {
        return Err(invalid(format!(
            "{name} is None: it must be a number of seconds or a timedelta"
        )));
    };
    check(value.py(), Unit::Seconds.duration(name, given))
}

/// The arguments `wait=` and `timeout=` of an acquire. `timeout` is an alias of `wait`.
pub(crate) fn wait(
    wait: Option<&Bound<'_, PyAny>>,
    timeout: Option<&Bound<'_, PyAny>>,
) -> PyResult<Wait> {
    if let (Some(wait), Some(timeout)) = (wait, timeout) {
        return Err(invalid(format!(
            "acquire(): timeout is an alias of wait, and both are given (wait={}, timeout={}). Give only wait",
            shown(wait),
            shown(timeout)
        )));
    }
    if timeout.is_some() { seconds("timeout", timeout) } else { seconds("wait", wait) }
}

/// An argument for which any value is valid, None included.
pub(crate) enum Anything {
    /// `...`, the default in the signature.
    NotGiven,
    /// The given value, which may be None.
    Given(Py<PyAny>),
}

impl FromPyObject<'_, '_> for Anything {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if value.is_instance_of::<PyEllipsis>() {
            return Ok(Self::NotGiven);
        }
        Ok(Self::Given(value.to_owned().unbind()))
    }
}

/// Converts a boolean option. `None` stays `None`.
pub(crate) fn switch(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<bool>> {
    let Some(value) = value else { return Ok(None) };
    let yes = value.cast::<PyBool>().map(|yes| Some(yes.is_true()));
    yes.map_err(|_| invalid(format!("{name} is {}: it must be True or False", shown(value))))
}

/// Converts a count. The core checks whether it is a whole number.
pub(crate) fn count(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    let Some(value) = value else { return Ok(None) };
    if !is_bool(value)
        && let Some(number) = tried(value.py(), value.extract::<f64>())?
    {
        return Ok(Some(number));
    }
    Err(invalid(format!("{name} is {}: it must be a whole number", shown(value))))
}

/// Converts text. The error does not show another value, because it may be a misplaced secret.
pub(crate) fn text(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let Some(value) = value else { return Ok(None) };
    if let Some(text) = tried(value.py(), value.extract())? {
        return Ok(Some(text));
    }
    Err(invalid(format!("{name} is of type {}: {}", class(value), text_rule(value))))
}

/// Converts a label: text, true for that of the process, or false for none.
pub(crate) fn label(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Value>> {
    let Some(given) = value else { return Ok(None) };
    if let Ok(yes) = given.cast::<PyBool>() {
        return Ok(Some(yes.is_true().into()));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(text(name, value)?.map(Value::from));
    }
    Err(invalid(format!("{name} is {}: it must be a str, True or False", shown(given))))
}

/// Returns the rule for an invalid text.
fn text_rule(value: &Bound<'_, PyAny>) -> &'static str {
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        "it must be a str. Decode it first, as in value.decode()"
    } else if value.is_instance_of::<PyString>() {
        "it must be a str that UTF-8 can encode, without lone surrogates"
    } else {
        "it must be a str"
    }
}

/// Converts the path of a PEM file, or its bytes.
pub(crate) fn pem(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Pem>> {
    let Some(value) = value else { return Ok(None) };
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Some(bytes.as_bytes().into()));
    }
    if let Some(path) = tried(value.py(), value.extract::<PathBuf>())? {
        return Ok(Some(path.into()));
    }
    // Not shown: it may be the key itself.
    let rule = "it must be the path of a PEM file, or its bytes";
    Err(invalid(format!("{name} is of type {}: {rule}", class(value))))
}

/// Checks that the value can be called.
pub(crate) fn callback(value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if value.is_callable() {
        return Ok(value.unbind());
    }
    Err(invalid(format!("callback is {}: it must be a function of one argument", shown(&value))))
}

/// Converts one name, or several.
pub(crate) fn names(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    strings(value)?.map_err(|wrong| {
        invalid(format!(
            "the name is {}: {}, or a list of several",
            shown(value),
            text_rule(&wrong)
        ))
    })
}

/// Converts one URL, or several.
pub(crate) fn nodes(given: &Nodes<'_>) -> PyResult<Vec<String>> {
    let Nodes::Given(value) = given else {
        return Err(invalid(
            "nodes is missing: give a URL such as 'redis://127.0.0.1:6379', or a list of several",
        ));
    };
    // Not shown: it may be a connection with a password in it.
    strings(value)?.map_err(|wrong| {
        invalid(format!(
            "a node is of type {}: it must be a str such as 'redis://127.0.0.1:6379', or a list of several. \
             Pass str(url) for a URL object, and Redlock.from_client(client) for a client of redis-py",
            class(&wrong)
        ))
    })
}

/// Converts a sequence of strings. Returns the first value that is not a string as an error.
fn strings<'py>(value: &Bound<'py, PyAny>) -> PyResult<Result<Vec<String>, Bound<'py, PyAny>>> {
    let py = value.py();
    let several = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    let items = if several {
        let items = value.try_iter().and_then(Iterator::collect::<PyResult<Vec<_>>>);
        let Some(items) = tried(py, items)? else { return Ok(Err(value.clone())) };
        items
    } else {
        vec![value.clone()]
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        match tried(py, item.extract())? {
            Some(text) => texts.push(text),
            None => return Ok(Err(item)),
        }
    }
    Ok(Ok(texts))
}

/// The name of a value's class, for messages that must not show the value.
///
/// Does not use `Display` on a Python object. `Display` runs signal handlers, and passes an exception of theirs, such
/// as Ctrl-C, only to `sys.unraisablehook`.
pub(crate) fn class(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().name();
    name.map_or_else(|_| "nameless class".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Formats a value for messages.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr();
    redlock::ffi::shown(&text.as_ref().map_or("unprintable".into(), |text| text.to_string_lossy()))
}

/// Whether the value is a function that returns the name for each call.
pub(crate) fn is_function(value: &Bound<'_, PyAny>) -> bool {
    !value.is_instance_of::<PyString>() && value.is_callable()
}
