//! Arguments as Python writes them: seconds or timedelta, one name or several, and words for what other libraries call otherwise.
//!
//! Whether a value makes sense is core's to say; here only its type is.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use redlock::{LockArgs, Unit};

use crate::error::invalid;

/// `wait=`: not given, or seconds, infinity being for ever.
pub(crate) type Wait = Option<f64>;

/// A time in seconds; `None` stays `None`.
pub(crate) fn seconds(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    let Some(value) = value else { return Ok(None) };
    if !value.is_instance_of::<PyBool>() {
        if let Ok(number) = value.extract::<f64>() {
            return Ok(Some(number));
        }
        if let Ok(total) = value.call_method0("total_seconds") {
            return total.extract().map(Some);
        }
    }
    Err(invalid(format!(
        "{name} is {}: it must be a number of seconds or a timedelta",
        shown(value)
    )))
}

/// The argument `wait=` of an acquire, where None is for ever and nothing is the lock's own.
pub(crate) enum WaitArg {
    NotGiven,
    Given(f64),
}

impl FromPyObject<'_, '_> for WaitArg {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let given = (!value.is_none()).then_some(&*value);
        Ok(Self::Given(seconds("wait", given)?.unwrap_or(f64::INFINITY)))
    }
}

impl From<WaitArg> for Wait {
    fn from(wait: WaitArg) -> Self {
        match wait {
            WaitArg::NotGiven => None,
            WaitArg::Given(seconds) => Some(seconds),
        }
    }
}

/// One name, or several.
pub(crate) fn names(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    strings(value).ok_or_else(|| {
        invalid(format!("the name is {}: it must be a str, or a list of several", shown(value)))
    })
}

/// One node's URL, or several.
pub(crate) fn nodes(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    strings(value).ok_or_else(|| {
        // Not shown: it may be a connection with a password in it.
        let kind = value.get_type();
        invalid(format!(
            "nodes is {kind}: it must be a URL such as 'redis://127.0.0.1:6379', or a list of URLs"
        ))
    })
}

fn strings(value: &Bound<'_, PyAny>) -> Option<Vec<String>> {
    if value.is_instance_of::<PyString>() {
        return Some(vec![value.extract().ok()?]);
    }
    let several = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    several.then(|| value.extract().ok()).flatten()
}

/// The options of a lock, as given.
pub(crate) fn lock_args(
    ttl: Option<&Bound<'_, PyAny>>,
    wait: Option<&Bound<'_, PyAny>>,
    renew: Option<bool>,
    max_hold: Option<&Bound<'_, PyAny>>,
    node_timeout: Option<&Bound<'_, PyAny>>,
    fencing: Option<bool>,
) -> PyResult<LockArgs> {
    Ok(LockArgs {
        unit: Unit::Seconds,
        ttl: seconds("ttl", ttl)?,
        wait: seconds("wait", wait)?,
        renew,
        max_hold: seconds("max_hold", max_hold)?,
        node_timeout: seconds("node_timeout", node_timeout)?,
        fencing,
    })
}

/// Refuses what is no option of `call`, naming the right one.
pub(crate) fn refuse(
    call: &str,
    options: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    if let Ok(extra) = args.get_item(0) {
        let extra = shown(&extra);
        return Err(invalid(format!(
            "{call} was given {extra} by position: options are named and times are in seconds ({options})"
        )));
    }
    let Some((name, _)) = kwargs.and_then(|kwargs| kwargs.iter().next()) else {
        return Ok(());
    };
    let name = name.to_string();
    let instead = match name.as_str() {
        "timeout" | "lease" | "expire" | "expiry" => {
            "use ttl= for how long the lease lives, wait= for how long to wait"
        }
        "blocking_timeout" | "acquire_timeout" => "use wait= for how long to wait",
        "blocking" => "use wait=0, or try_acquire(), for one round without waiting",
        "sleep" => "leave it out: waiting has no interval to choose",
        "thread_local" => "leave it out: a lease is an object that may be handed to any thread",
        "auto_renewal" => "use renew=",
        _ => options,
    };
    Err(invalid(format!("{call} has no option '{name}': {instead}")))
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "unprintable".to_owned(), |text| text.to_string())
}
