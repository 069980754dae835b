//! Converts the options of locks and clients by the tables of the core, which define names and kinds.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use redlock::ffi::{self, Args, CLIENT_OPTIONS, ClientArgs, Described, Kind, LockArgs, Row, Unit};

use crate::args;
use crate::callbacks::Kept;
use crate::errors::{invalid, tried};
use crate::{address_map, credentials};

/// The name of an option, and its value.
pub(crate) type Given<'a, 'py> = (&'static str, Option<&'a Bound<'py, PyAny>>);

/// Converts the options of a lock.
pub(crate) fn lock_args(described: Described, given: &[Given<'_, '_>]) -> PyResult<LockArgs> {
    let mut args = LockArgs::of_lock(Unit::Seconds);
    if let Some((mark, value)) = described.mark() {
        args = args.with(mark, Some(value));
    }
    converted(args, described.options(), given, &mut None)
}

/// Converts the options of a client.
///
/// Also returns the references to the functions that the client must keep.
pub(crate) fn client_args(given: &[Given<'_, '_>]) -> PyResult<(ClientArgs, Option<Kept>)> {
    let mut kept = None;
    let args = converted(ClientArgs::of_client(Unit::Seconds), CLIENT_OPTIONS, given, &mut kept)?;
    Ok((args, kept))
}

fn converted<T>(
    mut options: Args<T>,
    rows: impl IntoIterator<Item = &'static Row<T>>,
    given: &[Given<'_, '_>],
    kept: &mut Option<Kept>,
) -> PyResult<Args<T>> {
    let rows: Vec<_> = rows.into_iter().collect();
    for (name, value) in given {
        // A mistake in this binding: every call fails, so that no test can miss it.
        let Some(row) = rows.iter().find(|row| row.name == *name) else {
            return Err(invalid(format!("{name} is a parameter here, and no row in core's table")));
        };
        options = match row.kind {
            Kind::Time(_) | Kind::TimeOrForEver(_) => {
                options.with(name, args::seconds(name, *value)?)
            }
            Kind::TimeOrNull(_) if value.is_some_and(PyAnyMethods::is_none) => {
                options.with(name, Some(f64::INFINITY))
            }
            Kind::TimeOrNull(_) => options.with(name, args::seconds(name, *value)?),
            Kind::Count(..) => options.with(name, args::count(name, *value)?),
            Kind::Switch(_) => options.with(name, args::switch(name, *value)?),
            Kind::Text(_) => options.with(name, args::text(name, *value)?),
            Kind::Label(_) => options.with(name, args::label(name, *value)?),
            Kind::Pem(_) => options.with(name, args::pem(name, *value)?),
            Kind::Credentials(_) => options.with(name, credentials::given(name, *value, kept)?),
            Kind::AddressMap(_) => options.with(name, address_map::given(name, *value, kept)?),
        };
    }
    Ok(options)
}

/// Rejects arguments that are not options of a lock.
pub(crate) fn refuse_lock(
    described: Described,
    call: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    refuse(call, &names(described.options()), args, kwargs)
}

/// Rejects arguments that are not options of a client.
pub(crate) fn refuse_client(
    call: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    refuse(call, &names(CLIENT_OPTIONS), args, kwargs)
}

/// Rejects arguments that are not options of an acquire.
pub(crate) fn refuse_acquire(
    call: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    refuse(call, &["wait"], args, kwargs)
}

fn names<T: 'static>(rows: impl IntoIterator<Item = &'static Row<T>>) -> Vec<&'static str> {
    rows.into_iter().map(|row| row.name).collect()
}

/// Returns an error that names the correct option. It shows a value only if that cannot be a password.
fn refuse(
    call: &str,
    options: &[&str],
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    if let Some(extra) = args.iter().next() {
        let number = tried(args.py(), extra.extract::<f64>())?.is_some();
        let extra = if number {
            args::shown(&extra)
        } else {
            format!("a value of type {}", args::class(&extra))
        };
        return Err(invalid(format!(
            "{call} was given {extra} by position: options are named and times are in seconds ({}=)",
            options.join("=, ")
        )));
    }
    let Some((name, _)) = kwargs.and_then(|kwargs| kwargs.iter().next()) else {
        return Ok(());
    };
    // A name may contain characters that UTF-8 cannot encode.
    let name = name.str()?;
    let name = name.to_string_lossy();
    let instead = ffi::instead_of(&name, options, Unit::Seconds);
    Err(invalid(format!("{call} has no option '{}'. {instead}", ffi::shown(&name))))
}
