//! What callers in other languages give for a client and for a lock: values in their own unit, not yet checked.
//!
//! A binding says which options it was given, by name; how each is converted and where it goes is the table's
//! ([`super::options`]).

use std::time::Duration;

use super::options::{CLIENT_OPTIONS, LOCK_OPTIONS, Row, Value};
use crate::client::Redlock;
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::lock::{Lock, check_alone};
use crate::names::Names;
use crate::options::{Options, Unit};
use crate::spelling::spelled;

/// The options that were given, each by its name in the table.
pub struct Args<T: 'static> {
    /// In which times were given, and messages name them.
    unit: Unit,
    /// In the binding's order: of two mistakes the first is told.
    given: Vec<(&'static str, Value)>,
    /// Which options there are.
    table: &'static [Row<T>],
}

/// A lock's.
pub type LockArgs = Args<Options>;

/// A client's.
pub type ClientArgs = Args<Settings>;

// By hand: a derived one would ask for a `T` that can be cloned, and there is none in here.
impl<T> Clone for Args<T> {
    fn clone(&self) -> Self {
        Self { unit: self.unit, given: self.given.clone(), table: self.table }
    }
}

impl LockArgs {
    /// None is given; times will be in this unit.
    pub fn of_lock(unit: Unit) -> Self {
        Self { unit, given: Vec::new(), table: LOCK_OPTIONS }
    }
}

impl ClientArgs {
    /// None is given; times will be in this unit.
    pub fn of_client(unit: Unit) -> Self {
        Self { unit, given: Vec::new(), table: CLIENT_OPTIONS }
    }
}

impl<T> Args<T> {
    /// With this one, if it was given.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        self.given.extend(value.map(|value| (name, value.into())));
        self
    }

    /// The number that was given for this one.
    ///
    /// As it was given, for warnings and `repr`.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.given.iter().find_map(|(given, value)| match value {
            Value::Number(number) if *given == name => Some(*number),
            _ => None,
        })
    }

    /// What was given, by name: as it was given.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.given.iter().map(|(name, value)| (*name, value))
    }

    /// Puts everything where it belongs.
    ///
    /// Fails with `Invalid` at the first that is no option, or of another kind.
    fn apply(&self, into: &mut T) -> Result<()> {
        for (name, value) in &self.given {
            let row = self.table.iter().find(|row| row.name == *name);
            let row =
                row.ok_or_else(|| Error::invalid(format!("no option is {}", spelled(name))))?;
            row.set(into, value, self.unit)?;
        }
        Ok(())
    }
}

/// [`Redlock::builder`] for other languages.
///
/// Fails with `Invalid`; nothing connects.
pub fn client(nodes: Vec<String>, args: &ClientArgs) -> Result<Redlock> {
    let mut builder = Redlock::builder(nodes);
    args.apply(&mut builder.0)?;
    builder.build()
}

/// [`Redlock::lock`] for other languages: every option is checked at once.
pub fn lock(client: &Redlock, names: Vec<String>, args: &LockArgs) -> Result<Lock> {
    let lock = client.lock_with(names, options(args)?);
    // Now rather than at the first acquire: a wrong option shows where it was written.
    lock.request()?;
    Ok(lock)
}

/// A lock with the client and the options of this one, on other names, whose rules [`check_names`] checks and each acquire.
pub fn renamed(lock: &Lock, names: impl Into<Names>) -> Lock {
    lock.renamed(names.into())
}

/// Fails with `Invalid` if the names break a rule.
pub fn check_names(lock: &Lock) -> Result<()> {
    lock.request().map(drop)
}

/// What the lock's client puts before each name.
pub fn key_prefix(lock: &Lock) -> &str {
    lock.key_prefix()
}

/// What can be said of a lock before its client is known: the default one may be chosen later.
pub fn check_lock(names: &[String], args: &LockArgs) -> Result<()> {
    check_alone(names, &options(args)?)
}

/// The lock's ttl, and how long its acquires may wait; `None`: for ever.
pub fn times(args: &LockArgs) -> Result<(Duration, Option<Duration>)> {
    options(args).map(|options| (options.ttl, options.wait))
}

/// Defaults, and what was given over them.
fn options(args: &LockArgs) -> Result<Options> {
    let mut options = Options { unit: args.unit, ..Options::default() };
    args.apply(&mut options)?;
    Ok(options)
}

/// `Some(None)` is for ever, `None` is not given.
pub(super) fn wait(wait: Option<f64>, unit: Unit) -> Result<Option<Option<Duration>>> {
    match wait {
        None => Ok(None),
        Some(f64::INFINITY) => Ok(Some(None)),
        Some(value) => unit.duration("wait", value).map(|time| Some(Some(time))),
    }
}
