//! Pickles and copies of snapshots: objects that consist of their attributes.

use pyo3::IntoPyObjectExt;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::client::ping::{NodePing, Ping};
use crate::errors::invalid;
use crate::inspection::{Inspection, NodeInspection};
use crate::pickle::{HERE, copies_as_itself};
use crate::stats::Stats;

macro_rules! snapshots {
    ($($class:ident { $($field:ident),+ })+) => {
        copies_as_itself!($($class),+);

        $(
            #[pymethods]
            impl $class {
                #[pyo3(signature = () -> "tuple[typing.Any, ...]")]
                fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
                    reduced(slf, stringify!($class), &[$(stringify!($field)),+])
                }
            }
        )+

        /// Returns the snapshot of a pickle.
        #[pyfunction]
        #[pyo3(name = "_snapshot", signature = (name: "str", fields: "dict[str, typing.Any]") -> "typing.Any")]
        pub(crate) fn unpickled_snapshot(
            name: &str,
            fields: &Bound<'_, PyDict>,
        ) -> PyResult<Py<PyAny>> {
            match name {
                $(stringify!($class) => {
                    let snapshot = $class { $($field: value(fields, stringify!($field))?),+ };
                    snapshot.into_py_any(fields.py())
                })+
                _ => Err(other_version(name)),
            }
        }
    };
}

snapshots! {
    Inspection { held, mode, taken, limit, remaining, label, nodes }
    NodeInspection { url, key, state, remaining, token, label, error }
    Ping { ready, ready_in, nodes }
    NodePing { url, ready, ready_in, latency, error }
    Stats {
        granted, refused, timed_out, unavailable, released, renewed, unrenewed, lost, reconnects, waiting, held,
        time_waited, time_held
    }
}

/// Returns the parts of a pickle.
fn reduced<'py>(
    snapshot: &Bound<'py, PyAny>,
    name: &str,
    names: &[&str],
) -> PyResult<Bound<'py, PyTuple>> {
    let fields = PyDict::new(snapshot.py());
    for each in names {
        fields.set_item(each, snapshot.getattr(*each)?)?;
    }
    let make = snapshot.py().import(HERE)?.getattr("_snapshot")?;
    (make, (name, fields)).into_pyobject(snapshot.py())
}

fn value<'py, T: FromPyObjectOwned<'py>>(fields: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let value = fields.get_item(name)?.ok_or_else(|| other_version(name))?;
    value.extract().map_err(Into::into)
}

fn other_version(name: &str) -> PyErr {
    invalid(format!(
        "this pickle does not match {name} of this version of redlock: it was made by another one"
    ))
}
