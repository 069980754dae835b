//! The futures of a client that `redlock._client` awaits.

use pyo3::prelude::*;

use super::Redlock;
use crate::args;
use crate::errors::check;
use crate::runtime::begin_call;
use crate::runtime::spawn::spawn;

#[pymethods]
impl Redlock {
    /// Sends the commands of `force_release`.
    #[pyo3(signature = (name: "str | list[str] | tuple[str, ...]") -> "collections.abc.Awaitable[bool]")]
    fn _force_release<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let names = args::names(name)?;
        let sent = begin_call(|| self.client.client.force_release(names))?;
        spawn(py, sent, |py, done| {
            Ok(check(py, done)?.into_pyobject(py)?.to_owned().into_any().unbind())
        })
    }

    /// Sends the commands of `release_all`.
    #[pyo3(signature = () -> "collections.abc.Awaitable[int]")]
    fn _release_all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sent = begin_call(|| self.client.client.release_all())?;
        spawn(py, sent, |py, done| Ok(check(py, done)?.into_pyobject(py)?.into_any().unbind()))
    }
}
