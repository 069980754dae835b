//! Arguments as Python writes them: seconds or timedelta, one name or several, and words for what other libraries call otherwise.
//!
//! Whether a value makes sense is core's to say; here only its type is.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};
use redlock::{LockArgs, TlsOptions, Unit};

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

/// `renew=` and the like: yes or no; `None` stays `None`.
pub(crate) fn switch(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<bool>> {
    let Some(value) = value else { return Ok(None) };
    let yes = value.cast::<PyBool>().map(|yes| Some(yes.is_true()));
    yes.map_err(|_| invalid(format!("{name} is {}: it must be True or False", shown(value))))
}

/// Text; what it is instead is not shown, as it may be a secret in the wrong place.
pub(crate) fn text(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let Some(value) = value else { return Ok(None) };
    let text = value.extract().map(Some);
    text.map_err(|_| invalid(format!("{name} is of type {}: it must be a str", class(value))))
}

fn path(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<PathBuf>> {
    let Some(value) = value else { return Ok(None) };
    let path = value.extract().map(Some);
    // Nor is this shown: the bytes of a key are no path.
    let rule = || format!("{name} is of type {}: it must be the path of a file", class(value));
    path.map_err(|_| invalid(rule()))
}

/// The files and the name that `rediss://` nodes are reached with.
pub(crate) fn tls(
    ca: Option<&Bound<'_, PyAny>>,
    cert: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    server_name: Option<&Bound<'_, PyAny>>,
) -> PyResult<TlsOptions> {
    Ok(TlsOptions {
        ca: path("tls_ca", ca)?,
        cert: path("tls_cert", cert)?,
        key: path("tls_key", key)?,
        server_name: text("tls_server_name", server_name)?,
    })
}

/// What is called when something happens.
pub(crate) fn callback(value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if value.is_callable() {
        return Ok(value.unbind());
    }
    Err(invalid(format!("callback is {}: it must be a function of one argument", shown(&value))))
}

/// One name, or several.
pub(crate) fn names(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    strings(value).map_err(|_| {
        let rule = "it must be a str without lone surrogates, or a list of several";
        invalid(format!("the name is {}: {rule}", shown(value)))
    })
}

/// One node's URL, or several.
pub(crate) fn nodes(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    // Not shown: it may be a connection with a password in it.
    strings(value).map_err(|wrong| {
        invalid(format!(
            "a node is of type {}: it must be a URL such as 'redis://127.0.0.1:6379', or a list of URLs; \
             connections are made by redlock itself",
            class(&wrong)
        ))
    })
}

/// The strings, or what is there instead.
fn strings<'py>(value: &Bound<'py, PyAny>) -> Result<Vec<String>, Bound<'py, PyAny>> {
    let one = |value: Bound<'py, PyAny>| value.extract().map_err(|_| value);
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let several = value.try_iter().map_err(|_| value.clone())?;
        return several.map(|item| one(item.map_err(|_| value.clone())?)).collect();
    }
    one(value.clone()).map(|text| vec![text])
}

/// The options of a lock, as given.
pub(crate) fn lock_args(
    ttl: Option<&Bound<'_, PyAny>>,
    wait: Option<&Bound<'_, PyAny>>,
    renew: Option<&Bound<'_, PyAny>>,
    max_hold: Option<&Bound<'_, PyAny>>,
    node_timeout: Option<&Bound<'_, PyAny>>,
    fencing: Option<&Bound<'_, PyAny>>,
) -> PyResult<LockArgs> {
    Ok(LockArgs {
        unit: Unit::Seconds,
        ttl: seconds("ttl", ttl)?,
        wait: seconds("wait", wait)?,
        renew: switch("renew", renew)?,
        max_hold: seconds("max_hold", max_hold)?,
        node_timeout: seconds("node_timeout", node_timeout)?,
        fencing: switch("fencing", fencing)?,
    })
}

/// Refuses what is no option of `call`, naming the right one. Its value is shown only where it cannot be a password.
pub(crate) fn refuse(
    call: &str,
    options: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    if let Ok(extra) = args.get_item(0) {
        let number = extra.extract::<f64>().is_ok();
        let extra =
            if number { shown(&extra) } else { format!("a value of type {}", class(&extra)) };
        return Err(invalid(format!(
            "{call} was given {extra} by position: options are named and times are in seconds ({options})"
        )));
    }
    let Some((name, _)) = kwargs.and_then(|kwargs| kwargs.iter().next()) else {
        return Ok(());
    };
    let name = name.to_string();
    Err(invalid(match redlock::instead_of(&name, Unit::Seconds) {
        Some(instead) => format!("{call}: '{name}' is another library's option. {instead}"),
        None => format!("{call} has no option '{name}'. There are: {options}"),
    }))
}

fn class(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "nameless class".to_owned(), |name| name.to_string())
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "unprintable".to_owned(), |text| text.to_string())
}
