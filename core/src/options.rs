//! Every option, its default, and the rule each must obey.
//!
//! Values and rules; names, kinds and sentences for other languages stand in `ffi::options`, one row each. What
//! is wrong is said with the rule that it broke, before anything is sent.

use std::time::Duration;

use crate::error::{Error, Result, seconds};
use crate::spelling::spelled;

/// The least ttl: below it a scheduler's hiccup alone would end leases.
pub const MIN_TTL: Duration = Duration::from_millis(100);
/// Above this a ttl is unusual enough to be a wrong unit; it is allowed, with a warning.
///
/// `lock("job", ttl=30_000)` in a language that counts seconds is eight hours.
pub const LONG_TTL: Duration = Duration::from_secs(3600);
/// Any time option above this is a mistake, and would overflow a server's expiry.
const MAX_TIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The unit in which a language writes times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Rust: a time has its unit with it.
    #[default]
    Duration,
    /// Python and the command line.
    Seconds,
    /// Node.
    Milliseconds,
}

impl Unit {
    /// The duration that `value` of option `name` means; NaN, infinite and negative values break the rule.
    pub fn duration(self, name: &str, value: f64) -> Result<Duration> {
        let (scale, unit) = (if self == Self::Milliseconds { 1e-3 } else { 1.0 }, self.word());
        let (name, endless) = (spelled(name), self.endless(name));
        if value.is_nan() || value < 0.0 {
            let rule =
                format!("{name} is {value}: it must be a number of {unit}, 0 or more{endless}");
            return Err(Error::invalid(rule));
        }
        // `None` also where a float is more than a duration can be.
        Duration::try_from_secs_f64(value * scale).ok().filter(|time| *time <= MAX_TIME).ok_or_else(
            || {
                Error::invalid(format!(
                    "{name} is {value} {unit}: at most ten years make sense{endless}"
                ))
            },
        )
    }

    /// How this language writes a `wait` without an end; empty for other options.
    fn endless(self, name: &str) -> &'static str {
        match (name, self) {
            ("wait", Self::Seconds) => ". wait=None waits forever",
            ("wait", Self::Milliseconds) => ". wait: Infinity waits forever",
            _ => "",
        }
    }

    /// What messages call it.
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
    /// How long the lease lives without renewal.
    pub(crate) ttl: Duration,
    /// How long an acquire may wait for somebody else; `None`: for ever.
    pub(crate) wait: Option<Duration>,
    /// Extend at a third of the ttl until released.
    pub(crate) renew: bool,
    /// Upper bound on the total hold.
    pub(crate) max_hold: Option<Duration>,
    /// How long the keys stay after the acquire, whenever the lease is released; zero: until then.
    pub(crate) min_hold: Duration,
    /// Deadline of one vote, where one was chosen.
    pub(crate) node_timeout: Option<Duration>,
    /// Ask for a fencing token.
    pub(crate) fencing: bool,
    /// Every grant waits for a disk: votes take longer.
    pub(crate) fsync: bool,
    /// In which messages about the ttl are.
    pub(crate) unit: Unit,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            wait: None,
            renew: true,
            max_hold: None,
            min_hold: Duration::ZERO,
            node_timeout: None,
            fencing: false,
            fsync: false,
            unit: Unit::Duration,
        }
    }
}

impl Options {
    /// The deadline of one vote: min(1 s, ttl/5) unless chosen, with `fsync` min(2 s, ttl/5).
    pub(crate) fn node_timeout(&self) -> Duration {
        self.node_timeout.unwrap_or_else(|| (self.ttl / 5).min(longest_vote(self.fsync)))
    }

    /// Every rule, with its reason.
    ///
    /// `guard` is the client's `restart_guard`; zero: there is none.
    pub(crate) fn check(&self, guard: Duration) -> Result<()> {
        check_ttl(self.ttl, guard, self.unit)?;
        let times = [("wait", self.wait), ("max_hold", self.max_hold)];
        let others = [("min_hold", Some(self.min_hold)), ("node_timeout", self.node_timeout)];
        for (name, time) in times.into_iter().chain(others) {
            time.map_or(Ok(()), |time| check_time(name, time))?;
        }
        if let Some(max_hold) = self.max_hold
            && max_hold < MIN_TTL
        {
            let (option, max_hold) = (spelled("max_hold"), seconds(max_hold));
            let text = format!("{option} is {max_hold}: at least 0.1 s are needed");
            return Err(Error::invalid(text));
        }
        check_min_hold(self.min_hold, "ttl", self.ttl)?;
        check_min_hold(self.min_hold, "max_hold", self.max_hold.unwrap_or(self.ttl))?;
        // A vote that may take the whole ttl leaves nothing of the lease that it grants.
        if self.node_timeout().is_zero() || self.node_timeout() >= self.ttl {
            return Err(Error::invalid(format!(
                "{} is {}: it must be above 0 and below the ttl of {}",
                spelled("node_timeout"),
                seconds(self.node_timeout()),
                seconds(self.ttl)
            )));
        }
        Ok(())
    }
}

/// What a vote may take at most where nothing is chosen: a disk that is written to once a second needs more than that.
pub(crate) fn longest_vote(fsync: bool) -> Duration {
    Duration::from_secs(if fsync { 2 } else { 1 })
}

/// No time of any language may be so long that arithmetic with it, here or in a server, runs over.
pub(crate) fn check_time(name: &str, time: Duration) -> Result<()> {
    if time > MAX_TIME {
        let text = format!("{} is {}: at most ten years make sense", spelled(name), seconds(time));
        let way_out = if name == "wait" { "; leave it out to wait for ever" } else { "" };
        return Err(Error::invalid(format!("{text}{way_out}")));
    }
    Ok(())
}

/// Long enough for a renewal, and no longer than a restarted node is kept from voting.
///
/// Of every lock, and of every `extend`: a node that has forgotten a longer lease would vote for a second
/// holder.
pub(crate) fn check_ttl(ttl: Duration, guard: Duration, unit: Unit) -> Result<()> {
    check_time("ttl", ttl)?;
    if ttl < MIN_TTL {
        let unit = match unit {
            Unit::Duration => String::new(),
            number => format!("; ttl is in {}", number.word()),
        };
        let text = format!("ttl is {}: at least 0.1 s (100 ms) are needed{unit}", seconds(ttl));
        return Err(Error::invalid(text));
    }
    // Not cut to fit: who asks for more would believe in more.
    if !guard.is_zero() && ttl > guard {
        return Err(Error::invalid(format!(
            "ttl is {}, above {option} ({}): a restarted node could vote while such a lease lives. \
             Shorten the ttl and let renewal extend it, or raise {option} on every client",
            seconds(ttl),
            seconds(guard),
            option = spelled("restart_guard")
        )));
    }
    Ok(())
}

/// No key lives longer than what it is asked for: by the ttl, and by `max_hold`.
pub(crate) fn check_min_hold(min_hold: Duration, bound: &str, lives: Duration) -> Result<()> {
    if min_hold <= lives {
        return Ok(());
    }
    let (option, bound) = (spelled("min_hold"), spelled(bound));
    let (min_hold, lives) = (seconds(min_hold), seconds(lives));
    Err(Error::invalid(format!(
        "{option} is {min_hold}, above {bound} ({lives}): no key lives longer than that. Choose a longer {bound}"
    )))
}
