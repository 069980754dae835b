//! A deliberate panic, for the test that a panic becomes a Python exception. Not part of released builds.

use pyo3::prelude::*;

use crate::runtime::spawn::spawn;
use crate::runtime::wait::wait;

/// Panics at this place: in a call, in the future that a call waits for, in the future of asyncio, or in the conversion
/// of its result. For the tests.
#[pyfunction]
#[pyo3(signature = (place: "str") -> "object")]
pub(crate) fn _panic_for_tests(py: Python<'_>, place: &str) -> PyResult<Py<PyAny>> {
    let loop_future = match place {
        "wait" => return wait(py, async { panic!("a deliberate panic in a wait") }, |_| Ok(())),
        "future" => {
            spawn(py, async { panic!("a deliberate panic in a future") }, |py, ()| Ok(py.None()))
        }
        "answer" => spawn(py, async {}, |_, ()| panic!("a deliberate panic in an answer")),
        _ => panic!("a deliberate panic in a call"),
    };
    loop_future.map(Bound::unbind)
}
