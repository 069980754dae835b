//! Converts `address_map=`: a mapping of addresses, or a function that maps one.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString, PyTuple};
use redlock::ffi::{self, AddressMapOption, HostPort};

use crate::args;
use crate::callbacks::{Kept, calling, class_of};
use crate::errors::invalid;

/// Converts the option. The client must keep a function.
pub(crate) fn given(
    name: &'static str,
    value: Option<&Bound<'_, PyAny>>,
    kept: &mut Option<Kept>,
) -> PyResult<Option<AddressMapOption>> {
    let Some(value) = value else { return Ok(None) };
    if let Ok(mapping) = value.cast::<PyMapping>() {
        return Ok(Some(AddressMapOption::Table(table(name, mapping)?)));
    }
    if value.is_callable() {
        return Ok(Some(AddressMapOption::Function(calling(kept, name, value, convert_returned)?)));
    }
    Err(invalid(format!(
        "{name} is of type {}: it must be a dict such as {{\"10.0.0.1:6379\": \"127.0.0.1:7001\"}}, or a function \
         that gets a host and a port and returns (host, port)",
        args::class(value)
    )))
}

/// Returns the pairs of a mapping. The core checks them.
fn table(name: &str, mapping: &Bound<'_, PyMapping>) -> PyResult<Vec<(String, String)>> {
    let text = |value: &Bound<'_, PyAny>| {
        value.cast::<PyString>().ok().and_then(|text| text.extract::<String>().ok()).ok_or_else(|| {
            let class = args::class(value);
            invalid(format!(
                "{name} contains a value of type {class}: each key and value must be a str, \"host:port\""
            ))
        })
    };
    let pair = |item: Bound<'_, PyAny>| {
        let (from, to) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        Ok((text(&from)?, text(&to)?))
    };
    mapping.items()?.iter().map(pair).collect()
}

/// Converts what the function returned or raised.
fn convert_returned(
    told: Result<&Bound<'_, PyAny>, Bound<'_, PyBaseException>>,
) -> Result<HostPort, String> {
    let answer = told.map_err(|error| {
        let text = error.str().map(|text| ffi::shown(&text.to_string_lossy())).unwrap_or_default();
        format!("raised {}: {text}", class_of(&error))
    })?;
    let odd =
        |what: String| format!("returned {what}: it must return (host, port), a str and an int");
    let parts = answer.cast::<PyTuple>().ok().filter(|parts| parts.len() == 2);
    let parts = parts.ok_or_else(|| odd(format!("a value of type {}", args::class(answer))))?;
    let item = |at| parts.get_item(at).map_err(|_| odd("a tuple that cannot be read".to_owned()));
    let (host, port) = (item(0)?, item(1)?);
    let types = || odd(format!("({}, {})", args::class(&host), args::class(&port)));
    let host = host.cast::<PyString>().ok().and_then(|host| host.extract::<String>().ok());
    let host = host.ok_or_else(types)?;
    let number = port.extract::<i64>().map_err(|_| types())?;
    let port = u16::try_from(number).map_err(|_| odd(format!("the port {number}")))?;
    Ok((host, port))
}
