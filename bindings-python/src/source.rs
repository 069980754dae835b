//! Finds the client of a lock: the one that created it, or the default client, which is looked up at each acquire.

use std::env::VarError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::{self, ClientArgs, DefaultClient, LockArgs, Unit};

use crate::callbacks::{Kept, WeaklyKept};
use crate::errors::{check, invalid};
use crate::runtime::{lock, log};
use crate::stats::Stats;

static DEFAULT: DefaultClient<Numbered> = DefaultClient::new();

/// A client of the core with a number, by which a lock notices that the default client was replaced.
#[derive(Clone)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) client: redlock::Redlock,
    /// Owns the functions that the client calls.
    pub(crate) kept: Option<Kept>,
    pub(crate) recipe: Arc<Recipe>,
}

/// The arguments of a client, including its passwords. All copies of the client share them.
pub(crate) struct Recipe {
    pub(crate) nodes: Vec<String>,
    pub(crate) args: ClientArgs,
    /// The random identity by which unpickling finds an existing client in the same process.
    identity: OnceLock<String>,
    number: u64,
    client: redlock::Redlock,
    kept: Option<WeaklyKept>,
}

impl Recipe {
    /// The number of the client in this process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the statistics of the client.
    pub(crate) fn stats(&self) -> Stats {
        self.client.stats().into()
    }
}

/// The clients that were pickled or unpickled.
static KNOWN_RECIPES: Mutex<Vec<Weak<Recipe>>> = Mutex::new(Vec::new());

impl Numbered {
    /// Creates a client. It does not connect yet.
    pub(crate) fn make(
        py: Python<'_>,
        nodes: Vec<String>,
        args: ClientArgs,
        kept: Option<Kept>,
    ) -> PyResult<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        log::start(py)?;
        let client = check(py, ffi::client(nodes.clone(), &args))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let recipe = Recipe {
            nodes,
            args,
            identity: OnceLock::new(),
            number,
            client: client.clone(),
            kept: kept.as_ref().map(|kept| kept.downgrade(py)).transpose()?,
        };
        Ok(Self { number, client, kept, recipe: Arc::new(recipe) })
    }

    /// Returns the identity of the client in pickles.
    pub(crate) fn identity(&self, py: Python<'_>) -> PyResult<String> {
        if let Some(identity) = self.recipe.identity.get() {
            return Ok(identity.clone());
        }
        let random = py.import("os")?.call_method1("urandom", (16,))?.call_method0("hex")?;
        Ok(self.known_as(random.extract()?))
    }

    /// Sets the identity, unless there is one, and registers the client. Returns the identity.
    pub(crate) fn known_as(&self, identity: String) -> String {
        let mut known = lock(&KNOWN_RECIPES);
        known.retain(|recipe| recipe.strong_count() > 0);
        let identity = self.recipe.identity.get_or_init(|| identity).clone();
        known.push(Arc::downgrade(&self.recipe));
        identity
    }

    /// Returns the client with this identity, if it exists in this process.
    pub(crate) fn known(py: Python<'_>, identity: &str) -> PyResult<Option<Self>> {
        let all: Vec<_> = lock(&KNOWN_RECIPES).iter().filter_map(Weak::upgrade).collect();
        let is =
            |recipe: &Arc<Recipe>| recipe.identity.get().is_some_and(|known| known == identity);
        let Some(recipe) = all.into_iter().find(is) else { return Ok(None) };
        let kept = match &recipe.kept {
            None => None,
            Some(weak) => match weak.upgrade(py)? {
                None => return Ok(None),
                kept => kept,
            },
        };
        Ok(Some(Self { number: recipe.number, client: recipe.client.clone(), kept, recipe }))
    }

    /// Returns the default client and marks it as used.
    fn default(py: Python<'_>) -> PyResult<Self> {
        let make = || {
            // Started first, because reading the environment may log a warning.
            log::start(py)?;
            let nodes = ffi::default_nodes(set("REDLOCK_NODES")?, set("REDIS_URL")?);
            let nodes = check(py, nodes)?;
            Self::make(py, nodes, ClientArgs::of_client(Unit::Seconds), None)
        };
        DEFAULT.get(make, |made| made.client.nodes())
    }

    /// Replaces the default client, for tests.
    pub(crate) fn swap_default(other: Option<(Self, bool)>) -> Option<(Self, bool)> {
        DEFAULT.swap(other)
    }

    /// Makes this the default client.
    pub(crate) fn configure(&self, py: Python<'_>, replace: bool) -> PyResult<()> {
        let configured = DEFAULT.configure(self.clone(), &self.client.nodes(), replace);
        check(py, configured).map(drop)
    }
}

/// Reads an environment variable. One that is not valid text is an error, unlike one that is not set.
fn set(name: &str) -> PyResult<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(invalid(format!("{name} is not UTF-8: it must be URLs")))
        }
    }
}

/// How a lock finds its client.
#[derive(Clone)]
pub(crate) enum ClientSource {
    Client(Numbered),
    Default,
}

impl ClientSource {
    /// Returns the current client.
    pub(crate) fn client(&self, py: Python<'_>) -> PyResult<Numbered> {
        // A forked child inherits the client of its parent, but not the thread that writes its log.
        log::start(py)?;
        match self {
            Self::Client(client) => Ok(client.clone()),
            Self::Default => Numbered::default(py),
        }
    }

    /// For the garbage collector, in a lock.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Client(client) => Kept::traverse(client.kept.as_ref(), visit),
            Self::Default => Ok(()),
        }
    }

    /// Checks the options of a lock. Returns the lock with the number of its client, unless that is the default client.
    /// It does not access the default client, because that would select it.
    pub(crate) fn check(
        &self,
        py: Python<'_>,
        names: &[String],
        args: &LockArgs,
    ) -> PyResult<Option<(u64, Arc<redlock::Lock>)>> {
        let lock = match self {
            Self::Client(Numbered { client, number, .. }) => {
                ffi::lock(client, names.to_vec(), args).map(|lock| Some((*number, Arc::new(lock))))
            }
            Self::Default => ffi::check_lock(names, args).map(|()| None),
        };
        check(py, lock)
    }
}
