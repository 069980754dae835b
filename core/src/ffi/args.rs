//! What callers in other languages give for a client and for a lock: numbers in their own unit, not yet checked.

use std::time::Duration;

use crate::client::Redlock;
use crate::error::Result;
use crate::lock::Lock;
use crate::node::TlsOptions;
use crate::options::{Options, Unit};

/// What a caller in another language gave for a client; `None` means not given.
#[derive(Clone, Debug, Default)]
pub struct ClientArgs {
    /// The unit of the times below.
    pub unit: Unit,
    /// Goes before every name. Default `lock:`.
    pub key_prefix: Option<String>,
    /// Deadline of one vote. Default min(1 s, ttl/5).
    pub node_timeout: Option<f64>,
    /// Youngest age at which a node of several may vote. Default 60 s; 0 = no guard.
    pub restart_guard: Option<f64>,
    /// Whom `rediss://` nodes must be and who we are to them.
    pub tls: TlsOptions,
}

/// What a caller in another language gave for a lock; `None` means not given.
#[derive(Clone, Debug, Default)]
pub struct LockArgs {
    /// The unit of the times below.
    pub unit: Unit,
    /// How long the lease lives without renewal. Default 10 s.
    pub ttl: Option<f64>,
    /// How long to wait for somebody else. Default, and at infinity: for ever.
    pub wait: Option<f64>,
    /// Extend at a third of the ttl until released. Default on.
    pub renew: Option<bool>,
    /// Upper bound on the total hold. Default none.
    pub max_hold: Option<f64>,
    /// Deadline of one vote. Default the client's.
    pub node_timeout: Option<f64>,
    /// Ask for a fencing token. Default off.
    pub fencing: Option<bool>,
}

/// [`Redlock::builder`] for other languages.
pub fn client(nodes: Vec<String>, args: &ClientArgs) -> Result<Redlock> {
    let time = |name, value: Option<f64>| value.map(|v| args.unit.duration(name, v)).transpose();
    let mut builder = Redlock::builder(nodes);
    builder.0.node_timeout = time("node_timeout", args.node_timeout)?;
    builder.0.restart_guard = time("restart_guard", args.restart_guard)?;
    builder.0.key_prefix = args.key_prefix.clone();
    builder.0.tls = args.tls.clone();
    builder.build()
}

/// [`Redlock::lock`] for other languages: every option is checked at once.
pub fn lock(client: &Redlock, names: Vec<String>, args: &LockArgs) -> Result<Lock> {
    let lock = client.lock_with(names, options(args)?);
    lock.request()?;
    Ok(lock)
}

fn options(args: &LockArgs) -> Result<Options> {
    let time = |name, value: Option<f64>| value.map(|v| args.unit.duration(name, v)).transpose();
    let defaults = Options::default();
    Ok(Options {
        ttl: time("ttl", args.ttl)?.unwrap_or(defaults.ttl),
        wait: wait(args.wait, args.unit)?.unwrap_or(defaults.wait),
        renew: args.renew.unwrap_or(defaults.renew),
        max_hold: time("max_hold", args.max_hold)?,
        node_timeout: time("node_timeout", args.node_timeout)?,
        fencing: args.fencing.unwrap_or(defaults.fencing),
        unit: args.unit,
    })
}

/// `Some(None)` is for ever, `None` is not given.
pub(super) fn wait(wait: Option<f64>, unit: Unit) -> Result<Option<Option<Duration>>> {
    match wait {
        None => Ok(None),
        Some(f64::INFINITY) => Ok(Some(None)),
        Some(value) => unit.duration("wait", value).map(|time| Some(Some(time))),
    }
}
