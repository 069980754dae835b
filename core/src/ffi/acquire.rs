//! Acquiring and extending, as other languages write their times.

use std::future::Future;

use super::args;
use crate::error::Result;
use crate::lease::{Lease, LeaseHandle, Owner};
use crate::lock::Lock;
use crate::options::Unit;

/// [`Lock::acquire`] for other languages: `wait` overrides the lock's own, infinity is for ever. An owner that waits
/// for itself is told so.
pub fn acquire(
    lock: &Lock,
    wait: Option<f64>,
    unit: Unit,
    owner: Option<Owner>,
) -> Result<impl Future<Output = Result<Lease>> + Send + 'static + use<>> {
    let wait = args::wait(wait, unit)?.unwrap_or_else(|| lock.own_wait());
    Ok(lock.acquire_within(wait, owner))
}

/// [`LeaseHandle::extend`] for other languages: `None` is the lease's own ttl. A ttl that breaks a rule is told at once.
pub fn extend(
    lease: &LeaseHandle,
    ttl: Option<f64>,
    unit: Unit,
) -> Result<impl Future<Output = Result<()>> + Send + 'static + use<>> {
    let ttl = ttl.map(|ttl| unit.duration("ttl", ttl)).transpose()?;
    let ttl = ttl.unwrap_or_else(|| lease.ttl());
    lease.check_ttl(ttl, unit)?;
    Ok(lease.extend(ttl))
}
