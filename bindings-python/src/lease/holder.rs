//! Finds out whether the code that calls us holds a lease itself, and would wait for itself.
//!
//! A thread that acquired a lease may have handed it to another thread. It holds the lease if its running code is in a
//! with statement of the lease, or has the lease in a variable.

use std::slice;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use redlock::LeaseHandle;
use redlock::ffi;

use super::Lease;
use crate::call_site::{self, CallSite};
use crate::caller::Caller;
use crate::errors::tried;
use crate::once_cell::intern;
use crate::registry;
use crate::runtime::lock;

impl Lease {
    /// Returns a lease that this thread or task holds itself and would wait for, if there is one.
    pub(crate) fn own(py: Python<'_>, caller: &Caller) -> PyResult<Option<LeaseHandle>> {
        ffi::held_by(&caller.lock, caller.owner, |held| {
            if ffi::call_site::<CallSite>(held).is_none_or(|call_site| call_site.is_awaited) {
                return Ok(true);
            }
            let Some(lease) = registry::objects(py, slice::from_ref(held)).pop() else {
                return Ok(false);
            };
            lease.cast::<Self>()?.get().is_held_by_running_code(&lease)
        })
    }

    fn is_held_by_running_code(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = object.py();
        let block = lock(&self.block).as_ref().map(|frame| frame.clone_ref(py));
        // The frame of an ExitStack ends before the block runs.
        if let Some(block) = &block
            && call_site::module(block.bind(py))?.eq("contextlib")?
        {
            return Ok(true);
        }
        let mut frame = call_site::frame(py)?;
        while !frame.is_none() {
            // A suspended generator, such as a dependency of FastAPI, is not on the stack.
            let holds = match &block {
                Some(block) => block.is(&frame),
                None => tried(py, has_variable(&frame, object))?.unwrap_or(false),
            };
            if holds {
                return Ok(true);
            }
            frame = frame.getattr(intern!(py, "f_back"))?;
        }
        Ok(false)
    }
}

/// Whether a variable of this frame is this object.
fn has_variable(frame: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let variables = frame.getattr(intern!(frame.py(), "f_locals"))?;
    for item in variables.call_method0(intern!(frame.py(), "items"))?.try_iter()? {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        if value.is(object) {
            forget_copy(frame, &variables, &name)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes a variable from the copies that Python made of a function's variables before 3.13, which stay with the frame
/// and would keep the lease alive. Later versions make no copies.
fn forget_copy(
    frame: &Bound<'_, PyAny>,
    variables: &Bound<'_, PyAny>,
    name: &Bound<'_, PyAny>,
) -> PyResult<()> {
    const CO_OPTIMIZED: u32 = 1;
    let py = frame.py();
    let code = frame.getattr(intern!(py, "f_code"))?;
    let flags: u32 = code.getattr(intern!(py, "co_flags"))?.extract()?;
    match variables.cast::<PyDict>() {
        Ok(copies) if flags & CO_OPTIMIZED != 0 => copies.del_item(name),
        _ => Ok(()),
    }
}
