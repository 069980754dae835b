//! Identifies the owner of a lease: a thread, task or greenlet.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread::{self, ThreadId};

use pyo3::prelude::*;

use crate::once::{Once, intern};
use crate::runtime::{event_loop, greenlets, hosts};

/// The thread, task or greenlet that calls us. It identifies the owner of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The thread, if neither a task nor a greenlet is running.
    Thread(ThreadId),
    /// The task's address.
    Task(usize),
    /// The greenlet's address.
    Greenlet(usize),
}

impl Owner {
    /// The current owner.
    pub(crate) fn current(py: Python<'_>) -> PyResult<Self> {
        static CURRENT_TASK: Once<Py<PyAny>> = Once::new();
        if let Some(trio) = hosts::trio(py)? {
            let task = trio.call_method0(intern!(py, "current_task"))?;
            return Ok(Self::Task(task.as_ptr() as usize));
        }
        if let Some(event_loop) = event_loop::running(py)? {
            let task = CURRENT_TASK.import(py, "asyncio", "current_task")?.call1((event_loop,))?;
            if !task.is_none() {
                return Ok(Self::Task(task.as_ptr() as usize));
            }
        }
        match greenlets::in_use(py)? {
            Some(greenlets) => greenlets.current().map(Self::Greenlet),
            None => Ok(Self::Thread(thread::current().id())),
        }
    }

    /// Converts it for the core.
    pub(crate) fn plain(self) -> redlock::ffi::Owner {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        redlock::ffi::Owner(self.word(), hasher.finish())
    }

    /// Returns the word for messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Thread(_) => "this thread",
            Self::Task(_) => "this task",
            Self::Greenlet(_) => "this greenlet",
        }
    }
}
