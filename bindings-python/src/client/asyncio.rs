//! What a client can do in asyncio.

use pyo3::prelude::*;

use super::Redlock;
use crate::args;
use crate::errors::check;
use crate::runtime::submit::submit;

#[pymethods]
impl Redlock {
    /// `attach` for asyncio.
    ///
    ///     >>> theirs = await client.aattach("job", lease.token)
    #[pyo3(signature = (
        name: "str | list[str] | tuple[str, ...]",
        token: "str",
        *,
        ttl: "float | datetime.timedelta | None" = None
    ) -> "collections.abc.Awaitable[Lease]")]
    fn aattach<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        token: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.plain(py, name, ttl)?.aattach(py, token)
    }

    /// `force_release` for asyncio.
    ///
    ///     >>> await client.aforce_release("job")
    ///     True
    #[pyo3(signature = (name: "str | list[str] | tuple[str, ...]") -> "collections.abc.Awaitable[bool]")]
    fn aforce_release<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let sent = self.client.client.force_release(args::names(name)?);
        submit(py, sent, |py, done| {
            Ok(check(py, done)?.into_pyobject(py)?.to_owned().into_any().unbind())
        })
    }

    /// `release_all` for asyncio.
    ///
    ///     >>> await client.arelease_all()
    ///     1
    #[pyo3(signature = () -> "collections.abc.Awaitable[int]")]
    fn arelease_all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        submit(py, self.client.client.release_all(), |py, done| {
            Ok(check(py, done)?.into_pyobject(py)?.into_any().unbind())
        })
    }
}
