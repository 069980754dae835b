//! The futures of a client that `redlock._client` awaits.

use pyo3::prelude::*;

use super::Redlock;
use crate::errors::check;
use crate::runtime::begin_call;
use crate::runtime::spawn::spawn;

#[pymethods]
impl Redlock {
    /// Sends the commands of `force_release`.
    #[pyo3(signature = (name: "str | list[str] | tuple[str, ...] | Lock | AsyncLock") -> "collections.abc.Awaitable[bool]")]
    fn _force_release<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lock = self.described(py, name)?;
        let sent = begin_call(|| lock.force_release())?;
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
