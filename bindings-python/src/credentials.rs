//! Converts `credentials=`: a function that returns the login for a server.

use std::sync::Arc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use redlock::ffi::{Ask, Credentials, Unit};

use crate::args;
use crate::callbacks::{Kept, calling, class_of};
use crate::errors::invalid;

/// Converts the option. The client must keep the function.
pub(crate) fn given(
    name: &'static str,
    value: Option<&Bound<'_, PyAny>>,
    kept: &mut Option<Kept>,
) -> PyResult<Option<Arc<Ask>>> {
    let Some(value) = value else { return Ok(None) };
    if !value.is_callable() {
        // Not shown: it may be the secret itself.
        let class = args::class(value);
        return Err(invalid(format!(
            "{name} is of type {class}: it must be a function that returns a password"
        )));
    }
    calling(kept, name, value, convert_returned).map(Some)
}

/// Converts what the function returned or raised. The text of an error is not shown, because it may contain the secret.
fn convert_returned(
    told: Result<&Bound<'_, PyAny>, Bound<'_, PyBaseException>>,
) -> Result<Credentials, String> {
    match told {
        Ok(answer) => credentials(answer),
        Err(error) => Err(format!("raised {}, whose text is not shown", class_of(&error))),
    }
}

/// Converts the result. Lists and bytes are accepted too, as in other Redis clients.
fn credentials(answer: &Bound<'_, PyAny>) -> Result<Credentials, String> {
    if is_word(answer) {
        return Ok(Credentials::new(word("password", answer)?));
    }
    let words: Vec<Bound<'_, PyAny>> = match (answer.cast::<PyTuple>(), answer.cast::<PyList>()) {
        (Ok(tuple), _) => tuple.iter().collect(),
        (_, Ok(list)) => list.iter().collect(),
        _ => return Err(odd(&format!("a value of type {}", args::class(answer)))),
    };
    let (user, password, lifetime) = match words.as_slice() {
        [user, password] => (user, password, None),
        [user, password, lifetime] => (user, password, Some(lifetime)),
        _ => return Err(odd(&format!("{} values", words.len()))),
    };
    let mut found = Credentials::new(word("password", password)?);
    if !user.is_none() {
        found = found.user(word("user", user)?);
    }
    if let Some(lifetime) = lifetime.filter(|lifetime| !lifetime.is_none()) {
        let wrong = || odd(&format!("a lifetime of type {}", args::class(lifetime)));
        let seconds = args::seconds("lifetime", Some(lifetime)).ok().flatten().ok_or_else(wrong)?;
        let duration = Unit::Seconds.duration("lifetime", seconds);
        found = found
            .lifetime(duration.map_err(|_| "returned a lifetime that is not a time".to_owned())?);
    }
    Ok(found)
}

fn is_word(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>()
}

/// Converts a user or a password. Errors do not show it.
fn word(what: &str, value: &Bound<'_, PyAny>) -> Result<String, String> {
    if !is_word(value) {
        return Err(odd(&format!("a {what} of type {}", args::class(value))));
    }
    let text = value.extract::<String>().ok().or_else(|| {
        let bytes = value.cast::<PyBytes>().ok()?.as_bytes();
        str::from_utf8(bytes).ok().map(str::to_owned)
    });
    text.ok_or_else(|| format!("returned a {what} that is not UTF-8. Use ASCII characters"))
}

fn odd(what: &str) -> String {
    format!(
        "returned {what}: it must be a password, (user, password) or (user, password, lifetime in seconds)"
    )
}
