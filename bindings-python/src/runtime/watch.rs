//! A callback for the loss of a lease.

use std::sync::Weak;

use pyo3::prelude::*;

use super::lock;
use super::mailbox::Calls;

/// A callback for the loss of a lease; dropping it ends the watching.
pub(crate) struct Watch {
    pub(crate) callback: Py<PyAny>,
    pub(crate) calls: Weak<Calls>,
    pub(crate) id: u64,
    #[expect(dead_code, reason = "ends the watching when dropped")]
    pub(crate) task: Box<dyn Send + Sync>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(calls) = self.calls.upgrade() {
            lock(&calls).remove(&self.id);
        }
    }
}
