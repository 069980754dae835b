//! Statistics of a client, as plain data.

use std::collections::BTreeMap;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

/// The attributes, in the order of `repr`.
const FIELDS: [&str; 13] = [
    "granted",
    "refused",
    "timed_out",
    "unavailable",
    "released",
    "renewed",
    "unrenewed",
    "lost",
    "reconnects",
    "waiting",
    "held",
    "time_waited",
    "time_held",
];

/// Statistics of a client in this process. Times are in seconds. `dict(stats)` has the same names and values.
///
///     >>> client.stats().granted, client.stats().lost["expired"]
///     (0, 0)
///     >>> dict(client.stats())["granted"]
///     0
#[pyclass(frozen, get_all, module = "redlock")]
pub(crate) struct Stats {
    /// Acquires that returned a lease.
    pub(crate) granted: u64,
    /// Calls of `try_acquire` that found another holder.
    pub(crate) refused: u64,
    /// Acquires whose `wait` was over.
    pub(crate) timed_out: u64,
    /// Acquires for which too few nodes replied.
    pub(crate) unavailable: u64,
    /// Leases that their owner released.
    pub(crate) released: u64,
    /// Renewals that a quorum confirmed.
    pub(crate) renewed: u64,
    /// Renewals that no quorum confirmed. Each is retried until the lease ends.
    pub(crate) unrenewed: u64,
    /// Lost leases, by reason. Contains every reason. `forked` stays 0, because a forked child does not count the
    /// leases of its parent.
    pub(crate) lost: BTreeMap<String, u64>,
    /// Connections that were opened again after one ended.
    pub(crate) reconnects: u64,
    /// Acquires that are under way now.
    pub(crate) waiting: u64,
    /// Leases that are held now.
    pub(crate) held: u64,
    /// Total time that acquires waited, until the round that granted the lease or until `wait` was over.
    pub(crate) time_waited: f64,
    /// Total time that released and lost leases were held.
    pub(crate) time_held: f64,
}

#[pymethods]
impl Stats {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let pair = |name: &&str| Ok(format!("{name}={}", slf.getattr(*name)?.repr()?));
        let pairs = FIELDS.iter().map(pair).collect::<PyResult<Vec<_>>>()?;
        Ok(format!("Stats({})", pairs.join(", ")))
    }

    /// The names, for `dict(stats)`.
    #[pyo3(signature = () -> "list[str]")]
    #[expect(clippy::unused_self, reason = "Python calls it on an object")]
    fn keys(&self) -> [&'static str; FIELDS.len()] {
        FIELDS
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        if FIELDS.contains(&name) {
            slf.getattr(name)
        } else {
            Err(PyKeyError::new_err(name.to_owned()))
        }
    }
}

impl From<redlock::Stats> for Stats {
    fn from(stats: redlock::Stats) -> Self {
        Self {
            granted: stats.granted,
            refused: stats.refused,
            timed_out: stats.timed_out,
            unavailable: stats.unavailable,
            released: stats.released,
            renewed: stats.renewed,
            unrenewed: stats.unrenewed,
            lost: stats
                .lost
                .into_iter()
                .map(|(reason, lost)| (reason.as_str().to_owned(), lost))
                .collect(),
            reconnects: stats.reconnects,
            waiting: stats.waiting,
            held: stats.held,
            time_waited: stats.time_waited.as_secs_f64(),
            time_held: stats.time_held.as_secs_f64(),
        }
    }
}
