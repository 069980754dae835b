//! Where a lock finds its client: its maker, or the default client, which is looked up at each acquire.

use std::env::VarError;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::{self, ClientArgs, DefaultClient, LockArgs, Unit};

use crate::credentials::Kept;
use crate::errors::{check, invalid};
use crate::runtime::log;

static DEFAULT: DefaultClient<Numbered> = DefaultClient::new();

/// Core's client under a number, by which leases know whose they are.
#[derive(Clone)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) client: redlock::Redlock,
    /// What its connections ask for credentials.
    pub(crate) kept: Option<Kept>,
}

impl Numbered {
    /// A new client; nothing connects.
    pub(crate) fn make(
        py: Python<'_>,
        nodes: Vec<String>,
        (args, kept): (&ClientArgs, Option<Kept>),
    ) -> PyResult<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        log::start(py)?;
        let client = check(py, ffi::client(nodes, args))?;
        Ok(Self { number: NUMBER.fetch_add(1, Ordering::Relaxed), client, kept })
    }

    /// The default client, in use from now on.
    fn default(py: Python<'_>) -> PyResult<Self> {
        let make = || {
            let nodes = ffi::default_nodes(set("REDLOCK_NODES")?, set("REDIS_URL")?);
            Self::make(py, check(py, nodes)?, (&ClientArgs::of_client(Unit::Seconds), None))
        };
        DEFAULT.get(make, |made| made.client.nodes())
    }

    /// Makes this the default client.
    pub(crate) fn configure(&self, py: Python<'_>, replace: bool) -> PyResult<()> {
        let configured = DEFAULT.configure(self.clone(), &self.client.nodes(), replace);
        check(py, configured).map(drop)
    }
}

/// An environment variable that is no text is a mistake, and not the same as none.
fn set(name: &str) -> PyResult<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(invalid(format!("{name} is not UTF-8: it must be URLs")))
        }
    }
}

/// Where a lock finds its client.
#[derive(Clone)]
pub(crate) enum Source {
    Client(Numbered),
    Default,
}

impl Source {
    /// The client, now.
    pub(crate) fn client(&self, py: Python<'_>) -> PyResult<Numbered> {
        match self {
            Self::Client(client) => Ok(client.clone()),
            Self::Default => Numbered::default(py),
        }
    }

    /// What a lock keeps of a client.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Client(client) => Kept::traverse(client.kept.as_ref(), visit),
            Self::Default => Ok(()),
        }
    }

    /// Checks a lock's options; looking at the default client would choose it.
    pub(crate) fn check(&self, py: Python<'_>, names: &[String], args: &LockArgs) -> PyResult<()> {
        check(
            py,
            match self {
                Self::Client(made) => ffi::lock(&made.client, names.to_vec(), args).map(drop),
                Self::Default => ffi::check_lock(names, args),
            },
        )
    }
}
