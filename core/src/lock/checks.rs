//! Checks the names and options of a lock, before anything is sent.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::node::{check_lock_key, fence_key, permits_key};
use crate::options::client::DEFAULT_PREFIX;
use crate::options::lock::{Options, Request};
use crate::options::names::check_names;
use crate::primitive::{Kind, Primitive, ReadWrite, Semaphore, Side};
use crate::text::spelled;

pub(super) fn check_keys(names: &[String], keys: &[String]) -> Result<()> {
    check_names(names)?;
    keys.iter().try_for_each(|key| check_lock_key(key))
}

/// Checks every rule and returns the request.
pub(super) fn checked(
    names: &[String],
    keys: &Arc<[String]>,
    options: Options,
    guard: Duration,
) -> Result<Request> {
    check_keys(names, keys)?;
    let about = |error: Error| error.about(&keys.join(", "));
    options.check(guard).map_err(about)?;
    let (identity, primitive) = primitive(keys, &options).map_err(about)?;
    Ok(Request { identity, primitive, options, guard, doubt: None })
}

/// What the options make of these keys, and what callers wait for.
pub(super) fn primitive(
    keys: &Arc<[String]>,
    options: &Options,
) -> Result<(Arc<[String]>, Primitive)> {
    if let Some((what, call)) = options.of_one_name()
        && keys.len() != 1
    {
        let got = keys.len();
        let text = format!("{what} has one name (got {got}). Use one {call} per name");
        return Err(Error::invalid(text));
    }
    match options.kind {
        Kind::Mutex | Kind::ReadWrite(_) if options.permits != 1 => Err(Error::invalid(format!(
            "permits is an option of a semaphore (got {}). Use semaphore() instead of lock()",
            options.permits
        ))),
        Kind::Mutex => {
            let fences = if options.fencing {
                keys.iter().map(|key| fence_key(key)).collect::<Result<_>>()?
            } else {
                Arc::default()
            };
            Ok((Arc::clone(keys), Primitive::Mutex { fences }))
        }
        Kind::Semaphore { limit } => {
            if options.fencing {
                return Err(Error::invalid(
                    "fencing is not available for a semaphore, because its permits have several owners. Use lock()",
                ));
            }
            let semaphore = Semaphore::new(&keys[0], limit, options.permits)?;
            Ok(([permits_key(&keys[0])?].into(), Primitive::Semaphore(semaphore)))
        }
        Kind::ReadWrite(side) => {
            if side == Side::Read {
                check_reader(options)?;
            }
            let lock = ReadWrite::new(&keys[0], side, options.fencing)?;
            Ok((Arc::clone(keys), Primitive::ReadWrite(lock)))
        }
    }
}

/// Rejects the options of an owner that has the lock alone.
fn check_reader(options: &Options) -> Result<()> {
    if options.fencing {
        return Err(Error::invalid(
            "fencing is not available for readers, because several hold the lock at a time. Use write()",
        ));
    }
    if !options.min_hold.is_zero() {
        return Err(Error::invalid(format!(
            "{} is not available for readers. Use write()",
            spelled("min_hold")
        )));
    }
    Ok(())
}

/// Checks the rules of a lock whose client is not known yet, as for a default client with one node.
pub(crate) fn check_alone(names: &[String], options: &Options) -> Result<()> {
    let keys = names.iter().map(|name| format!("{DEFAULT_PREFIX}{name}")).collect();
    checked(names, &keys, options.clone(), Duration::ZERO).map(drop)
}
