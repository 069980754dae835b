//! The options of a lock: their values, defaults and rules.
//!
//! `ffi::options` has the names, kinds and descriptions for other languages, one row for each option. An error states
//! the rule that a value breaks, before anything is sent. [`Unit`] converts the numbers of other languages, and refuses
//! those that cannot be a duration.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, Result};
use crate::node::LabelOption;
use crate::primitive::{Kind, Primitive};
use crate::text::{spelled, spelled_time};

/// The minimum TTL. With a shorter one, a scheduling delay alone could end a lease.
pub const MIN_TTL: Duration = Duration::from_millis(100);
/// A longer TTL is allowed, but logs a warning, because its unit may be wrong.
///
/// In a language with seconds, `lock("job", ttl=30_000)` is eight hours.
pub const LONG_TTL: Duration = Duration::from_secs(3600);
/// The maximum of every time option. A longer time is a mistake, and would overflow the expiry of a server.
const MAX_TIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The validated keys and options of a lock. The lock creates it at its first use. Its acquires and leases share it.
#[derive(Debug)]
pub(crate) struct Request {
    /// What callers wait for: the Redis keys of a lock, or the common part of those of a semaphore.
    pub(crate) identity: Arc<[String]>,
    pub(crate) primitive: Primitive,
    pub(crate) options: Options,
    /// The client's `restart_guard`: how long a restarted node grants no new leases. It limits every TTL. Zero disables
    /// it.
    pub(crate) guard: Duration,
    /// What suggests that a name is a mistake, for the log.
    pub(crate) doubt: Option<String>,
}

/// The unit in which a language writes times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Rust: a time includes its unit.
    #[default]
    Duration,
    /// Python and the command line.
    Seconds,
    /// Node.js.
    Milliseconds,
}

impl Unit {
    /// Converts the value of the option `name`.
    ///
    /// # Errors
    ///
    /// `Invalid` for NaN, for infinite and negative values, and above ten years.
    pub fn duration(self, name: &str, value: f64) -> Result<Duration> {
        let (scale, unit) = (if self == Self::Milliseconds { 1e-3 } else { 1.0 }, self.word());
        let (name, endless) = (spelled(name), self.endless(name));
        if value.is_nan() || value < 0.0 {
            let rule =
                format!("{name} must be a number of {unit}, 0 or more (got {value}){endless}");
            return Err(Error::invalid(rule));
        }
        // `None` also if the value exceeds the range of a duration.
        Duration::try_from_secs_f64(value * scale).ok().filter(|time| *time <= MAX_TIME).ok_or_else(
            || {
                Error::invalid(format!(
                    "{name} must be at most ten years (got {value} {unit}){endless}"
                ))
            },
        )
    }

    /// How this language writes that an option sets no limit. Empty for options that must.
    fn endless(self, name: &str) -> &'static str {
        match (name, self) {
            ("wait", Self::Seconds) => ". wait=math.inf waits forever",
            ("wait", Self::Milliseconds) => ". wait: Infinity waits forever",
            ("unavailable_after", Self::Seconds) => ". unavailable_after=None never gives up",
            ("unavailable_after", Self::Milliseconds) => ". unavailableAfter: null never gives up",
            _ => "",
        }
    }

    /// The name of the unit in messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Duration | Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
        }
    }
}

/// The options of a lock.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) ttl: Duration,
    /// How long an acquire waits. `None` is the default, which waits forever for another owner, and for failed nodes by
    /// `unavailable_after`. A run of `once` tries once. `Some(None)` waits forever because the program chose it.
    pub(crate) wait: Option<Option<Duration>>,
    /// Whether to renew the lease at a third of its TTL until it is released.
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// How long the keys stay after the acquire, even if the lease is released earlier. Zero disables it.
    pub(crate) min_hold: Duration,
    pub(crate) purpose: Purpose,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) fencing: bool,
    /// Whether every grant waits for a disk, so that votes take longer.
    pub(crate) fsync: bool,
    /// How long an acquire without a `wait` goes on while no quorum of nodes replies. `None` is forever.
    ///
    /// The client sets it.
    pub(crate) unavailable_after: Option<Duration>,
    pub(crate) kind: Kind,
    /// How many permits of a semaphore each lease has.
    pub(crate) permits: u32,
    /// The label of the holder in the value of the keys. `None` is the client's.
    pub(crate) label: Option<LabelOption>,
    /// The unit in messages about the TTL.
    pub(crate) unit: Unit,
}

/// What a lock is for, which decides on defaults, on what is logged, and on when `min_hold` keeps the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A section of the program. Every release keeps the keys.
    Section,
    /// A body that runs once in the time `min_hold`. Only a release at the end of a body that succeeded keeps the keys.
    Once,
    /// The leader of an election. Long holds and long waits are normal, and a campaign survives outages.
    Leader,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            wait: None,
            renew: true,
            max_hold: None,
            min_hold: Duration::ZERO,
            purpose: Purpose::Section,
            node_timeout: None,
            fencing: false,
            fsync: false,
            unavailable_after: None,
            kind: Kind::Mutex,
            permits: 1,
            label: None,
            unit: Unit::Duration,
        }
    }
}

impl Options {
    /// The options of an election.
    pub(crate) fn of_leader() -> Self {
        Self { purpose: Purpose::Leader, ..Self::default() }
    }

    /// The timeout of one vote. Defaults to min(1 s, ttl / 5), or min(3 s, ttl / 3) with `fsync`.
    pub(crate) fn node_timeout(&self) -> Duration {
        self.node_timeout.unwrap_or_else(|| self.vote_share(self.ttl).min(longest_vote(self.fsync)))
    }

    /// The part of a TTL that a vote may take. A renewal begins after a third of the TTL, and another one fits in
    /// before the deadline. With `fsync` the other one begins, and may have less time.
    pub(crate) fn vote_share(&self, ttl: Duration) -> Duration {
        ttl / if self.fsync { 3 } else { 5 }
    }

    /// When `max_hold` ends. Like the TTL, it counts from before the first byte was sent. No renewal or extension goes
    /// beyond it.
    pub(crate) fn hold_end(&self, started: Instant) -> Option<Instant> {
        self.max_hold.map(|max_hold| started + max_hold)
    }

    /// How long an acquire waits. `None` waits forever.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait.unwrap_or(self.is_once().then_some(Duration::ZERO))
    }

    /// Whether the lock runs a body once, so that an acquire ends when it finds kept keys.
    pub(crate) fn is_once(&self) -> bool {
        self.purpose == Purpose::Once
    }

    /// Whether the lock elects a leader.
    pub(crate) fn is_leader(&self) -> bool {
        self.purpose == Purpose::Leader
    }

    /// What has one name only, with an article, and what to use for each further name.
    pub(crate) fn of_one_name(&self) -> Option<(&'static str, &'static str)> {
        match (self.purpose, self.kind) {
            (Purpose::Once, _) => Some(("a run of once()", "once()")),
            (Purpose::Leader, _) => Some(("an election of leader()", "leader()")),
            (_, Kind::Semaphore { .. }) => Some(("a semaphore", "semaphore")),
            (_, Kind::ReadWrite(_)) => Some(("a read/write lock", "read/write lock")),
            (_, Kind::Mutex) => None,
        }
    }

    /// The name of `min_hold` in messages.
    pub(crate) fn name_of_min_hold(&self) -> &'static str {
        if self.is_once() { "remember" } else { "min_hold" }
    }

    /// Whether the lock may be held for long on purpose: its hold time is limited, or it belongs to a leader. Before
    /// there was `leader`, programs elected one by an endless wait.
    pub(crate) fn may_be_held_long(&self) -> bool {
        self.is_leader() || self.max_hold.is_some() || self.wait == Some(None)
    }

    /// What to change so that an acquire does not fail after `unavailable_after`.
    pub(crate) fn way_to_wait_longer(&self) -> String {
        let time = self.unavailable_after.unwrap_or_default();
        match self.unit {
            Unit::Seconds => format!(
                "Gave up after unavailable_after={}. Pass a finite wait= to choose how long this lock tries, or \
                 unavailable_after=None to the client to try forever",
                time.as_secs_f64()
            ),
            Unit::Milliseconds => format!(
                "Gave up after unavailableAfter: {}. Pass a finite wait to choose how long this lock tries, or \
                 unavailableAfter: null to the client to try forever",
                (time * 1000).as_secs_f64()
            ),
            Unit::Duration => format!(
                "Gave up after unavailable_after ({}). Set a wait to choose how long this lock tries, or \
                 unavailable_after(None) on the client to try forever",
                spelled_time(time)
            ),
        }
    }

    /// Checks every rule.
    ///
    /// `guard` is the client's `restart_guard`. Zero disables it.
    pub(crate) fn check(&self, guard: Duration) -> Result<()> {
        check_ttl(self.ttl, guard, self.unit)?;
        let times = [("wait", self.wait()), ("max_hold", self.max_hold)];
        let min_hold = (self.name_of_min_hold(), Some(self.min_hold));
        let others = [min_hold, ("node_timeout", self.node_timeout)];
        for (name, time) in times.into_iter().chain(others) {
            time.map_or(Ok(()), |time| check_time(name, time))?;
        }
        if self.is_once() && self.min_hold.is_zero() {
            return Err(Error::invalid(
                "remember must be above 0 (got 0). It is how long a run is remembered. Use lock() to remember none",
            ));
        }
        if let Some(max_hold) = self.max_hold
            && max_hold < MIN_TTL
        {
            let (option, least) = (spelled("max_hold"), spelled_time(MIN_TTL));
            let text =
                format!("{option} must be at least {least} (got {})", spelled_time(max_hold));
            return Err(Error::invalid(text));
        }
        self.label.as_ref().map_or(Ok(()), LabelOption::check)?;
        if self.is_leader() && self.label == Some(LabelOption::Off) {
            return Err(Error::invalid(
                "the label of a leader must not be off, because current() shows it. Omit it to use that of the client, \
                 or the host and the process",
            ));
        }
        // If a vote may take the whole TTL, no time is left of the lease.
        if self.node_timeout().is_zero() || self.node_timeout() >= self.ttl {
            return Err(Error::invalid(format!(
                "{} must be above 0 and below the ttl of {} (got {})",
                spelled("node_timeout"),
                spelled_time(self.ttl),
                spelled_time(self.node_timeout())
            )));
        }
        Ok(())
    }
}

/// The maximum default timeout of a vote. With `fsync` it is longer. The server may sync its disk only once a second,
/// and a vote that is sent while another one waits for that needs two syncs.
pub(crate) fn longest_vote(fsync: bool) -> Duration {
    Duration::from_secs(if fsync { 3 } else { 1 })
}

/// Rejects times that would overflow, here or in a server.
pub(crate) fn check_time(name: &str, time: Duration) -> Result<()> {
    if time > MAX_TIME {
        let (option, time) = (spelled(name), spelled_time(time));
        let text = format!("{option} must be at most ten years (got {time})");
        let way_out = match name {
            "wait" => ". Omit it to wait forever",
            "unavailable_after" => ". Use None to try forever",
            _ => "",
        };
        return Err(Error::invalid(format!("{text}{way_out}")));
    }
    Ok(())
}

/// Checks that a TTL is long enough to be renewed, and not longer than the restart guard.
///
/// It applies to every lock and every `extend`: a node that forgot a longer lease could vote for a second holder.
pub(crate) fn check_ttl(ttl: Duration, guard: Duration, unit: Unit) -> Result<()> {
    check_time("ttl", ttl)?;
    if ttl < MIN_TTL {
        let unit = match unit {
            Unit::Duration => String::new(),
            number => format!(". ttl is in {}", number.word()),
        };
        let (least, ttl) = (spelled_time(MIN_TTL), spelled_time(ttl));
        return Err(Error::invalid(format!("ttl must be at least {least} (got {ttl}){unit}")));
    }
    // An error and not a shorter TTL, because the caller would rely on the longer one.
    if !guard.is_zero() && ttl > guard {
        return Err(Error::invalid(format!(
            "ttl must be at most {option}, which is {} (got {}). Otherwise a restarted node could grant a second \
             lease. Shorten the ttl and let renewal extend it, or raise {option} on every client",
            spelled_time(guard),
            spelled_time(ttl),
            option = spelled("restart_guard")
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vote_on_a_disk_has_time_for_two_syncs() {
        let default = |ttl, fsync| {
            let ttl = Duration::from_secs(ttl);
            Options { ttl, fsync, ..Options::default() }.node_timeout().as_millis()
        };
        assert_eq!([2, 10, 60].map(|ttl| default(ttl, false)), [400, 1000, 1000]);
        assert_eq!([2, 10, 60].map(|ttl| default(ttl, true)), [666, 3000, 3000]);
    }
}
