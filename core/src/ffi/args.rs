//! The options of a client or a lock as the bindings pass them, in the caller's unit and not checked yet.
//!
//! A binding passes options by name. The table in [`super::options`] defines how each is converted and where it is
//! stored.

use std::time::Duration;

use super::options::{CLIENT_OPTIONS, LOCK_OPTIONS, Row, Value};
use crate::client::Redlock;
use crate::client::config::Settings;
use crate::error::{Error, Result};
use crate::lock::Names;
use crate::lock::options::{Options, Unit};
use crate::lock::{Lock, check_alone};
use crate::text::spelled;

/// The options that a caller passed, by their names in the table.
pub struct Args<T: 'static> {
    /// The unit of times, also in messages.
    unit: Unit,
    /// In the order of the binding. The first mistake is reported.
    given: Vec<(&'static str, Value)>,
    /// The options that exist.
    table: &'static [Row<T>],
}

/// The options of a lock.
pub type LockArgs = Args<Options>;

/// The options of a client.
pub type ClientArgs = Args<Settings>;

// Implemented manually, because a derive would require `T: Clone`.
impl<T> Clone for Args<T> {
    fn clone(&self) -> Self {
        Self { unit: self.unit, given: self.given.clone(), table: self.table }
    }
}

impl LockArgs {
    /// No options yet. Times will be in this unit.
    pub fn of_lock(unit: Unit) -> Self {
        Self { unit, given: Vec::new(), table: LOCK_OPTIONS }
    }
}

impl ClientArgs {
    /// No options yet. Times will be in this unit.
    pub fn of_client(unit: Unit) -> Self {
        Self { unit, given: Vec::new(), table: CLIENT_OPTIONS }
    }
}

impl<T> Args<T> {
    /// Adds an option, if it has a value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        self.given.extend(value.map(|value| (name, value.into())));
        self
    }

    /// The number passed for an option, unconverted.
    ///
    /// Used for warnings and `repr`.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.given.iter().find_map(|(given, value)| match value {
            Value::Number(number) if *given == name => Some(*number),
            _ => None,
        })
    }

    /// The options that were passed, unconverted.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.given.iter().map(|(name, value)| (*name, value))
    }

    /// Stores every option in `into`.
    ///
    /// # Errors
    ///
    /// `Invalid` at the first option that does not exist or has a value of the wrong kind.
    fn apply(&self, into: &mut T) -> Result<()> {
        for (name, value) in &self.given {
            let row = self.table.iter().find(|row| row.name == *name);
            let row =
                row.ok_or_else(|| Error::invalid(format!("unknown option {}", spelled(name))))?;
            row.set(into, value, self.unit)?;
        }
        Ok(())
    }
}

/// [`Redlock::builder`] for the bindings. Does not connect.
///
/// # Errors
///
/// `Invalid` if an option breaks a rule.
pub fn client(nodes: Vec<String>, args: &ClientArgs) -> Result<Redlock> {
    let mut builder = Redlock::builder(nodes);
    args.apply(&mut builder.0)?;
    builder.build()
}

/// [`Redlock::lock`] for the bindings. Checks every option immediately.
///
/// # Errors
///
/// `Invalid` if a name or an option breaks a rule.
pub fn lock(client: &Redlock, names: Vec<String>, args: &LockArgs) -> Result<Lock> {
    let lock = client.lock_with(names, options(args)?);
    // Checked here and not at the first acquire, so that the error points to the line with the wrong option.
    lock.request()?;
    Ok(lock)
}

/// A lock with the same client and options, on other names. [`check_names`] and each acquire check the names.
pub fn renamed(lock: &Lock, names: impl Into<Names>) -> Lock {
    lock.renamed(names.into())
}

/// Checks the names of a lock.
///
/// # Errors
///
/// `Invalid` if they break a rule.
pub fn check_names(lock: &Lock) -> Result<()> {
    lock.request().map(drop)
}

/// The prefix that the client puts before each name.
pub fn key_prefix(lock: &Lock) -> &str {
    lock.key_prefix()
}

/// Checks a lock before its client is known, because the default client may be chosen later.
///
/// # Errors
///
/// `Invalid` if a name or an option breaks a rule.
pub fn check_lock(names: &[String], args: &LockArgs) -> Result<()> {
    check_alone(names, &options(args)?)
}

/// The TTL of the lock, and how long its acquires may wait. `None` waits forever.
pub fn times(args: &LockArgs) -> Result<(Duration, Option<Duration>)> {
    options(args).map(|options| (options.ttl, options.wait))
}

/// The passed options, and defaults for the others.
fn options(args: &LockArgs) -> Result<Options> {
    let mut options = Options { unit: args.unit, ..Options::default() };
    args.apply(&mut options)?;
    Ok(options)
}

/// Converts `wait`. `None` if it was not passed, `Some(None)` if it waits forever.
pub(super) fn wait(wait: Option<f64>, unit: Unit) -> Result<Option<Option<Duration>>> {
    match wait {
        None => Ok(None),
        Some(f64::INFINITY) => Ok(Some(None)),
        Some(value) => unit.duration("wait", value).map(|time| Some(Some(time))),
    }
}
