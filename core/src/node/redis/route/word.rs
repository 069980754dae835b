//! What sentinels say of the primary, and which of their words is the newest: pure.
//!
//! Each failover has an epoch, larger than the one before. A sentinel that was cut off names the primary of an
//! earlier one, which may still believe that it is one.

use std::time::Duration;

use redis::Value;

use super::super::refusal::words;
use super::super::reply;
use crate::node::Fault;

/// Where one sentinel says that the primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// By name or address, as the sentinels have been told.
    pub(super) host: String,
    pub(super) port: u16,
    /// Of the failover that made it the primary, where the sentinel says it.
    pub(super) epoch: Option<u64>,
    /// For how long this sentinel has seen it as the primary: at least so old it is as one.
    pub(super) since: Duration,
}

impl Word {
    /// The answers to `SENTINEL GET-MASTER-ADDR-BY-NAME` and `SENTINEL MASTER`; `None` if there is no such service.
    pub(super) fn read(place: &Value, about: &Value) -> Result<Option<Self>, Fault> {
        let (host, port) = match place {
            Value::Nil => return Ok(None),
            Value::Array(parts) => match &parts[..] {
                [host, port] => (words(host), words(port)),
                _ => return Err(reply::unexpected(place)),
            },
            _ => return Err(reply::unexpected(place)),
        };
        let Ok(port) = port.parse() else { return Err(reply::unexpected(place)) };
        let epoch = field(about, "config-epoch").and_then(|epoch| epoch.parse().ok());
        // While a failover goes on, its leader names the new primary and tells of the old one.
        let same = field(about, "ip").as_ref() == Some(&host)
            && field(about, "port").is_some_and(|told| told.parse() == Ok(port));
        let since = field(about, "role-reported-time").filter(|_| same);
        let since = since.and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        Ok(Some(Self { host, port, epoch, since: since.unwrap_or_default() }))
    }

    /// As it is shown.
    pub(super) fn place(&self) -> String {
        crate::text::shown(&format!("{}:{}", self.host, self.port))
    }

    /// Whether both name one server.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Whether this is of a later failover.
    pub(super) fn is_after(&self, other: &Self) -> bool {
        matches!((self.epoch, other.epoch), (Some(this), Some(that)) if this > that)
    }

    /// Whether a sentinel that said `before` and says this now tells of another primary than `known`, which is the newest
    /// so far.
    pub(super) fn is_news(&self, before: Option<&Self>, known: &Self) -> bool {
        // Where there are no epochs, or they began anew, as when a service is removed and put in again, a sentinel that
        // changes its mind is believed. One that only catches up with the others has a larger epoch than before.
        let changed = before.is_some_and(|before| !self.is_at(before) && !self.is_after(before));
        !self.is_at(known) && (self.is_after(known) || changed)
    }
}

/// One field of what a sentinel tells of a primary: a map, or names and values in turn.
pub(super) fn field(about: &Value, name: &str) -> Option<String> {
    let of = |key: &Value, value: &Value| (words(key) == name).then(|| words(value));
    match about {
        Value::Map(pairs) => pairs.iter().find_map(|(key, value)| of(key, value)),
        Value::Array(parts) => parts.chunks_exact(2).find_map(|pair| of(&pair[0], &pair[1])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(port: u16, epoch: impl Into<Option<u64>>) -> Word {
        Word { host: "h".into(), port, epoch: epoch.into(), since: Duration::ZERO }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn a_later_failover_is_news_and_an_earlier_one_is_not() {
        let known = word(1, 5);
        assert!(word(2, 6).is_news(None, &known));
        assert!(!word(2, 4).is_news(None, &known));
        assert!(!word(2, 5).is_news(None, &known));
        assert!(!word(1, 6).is_news(None, &known));
        // It catches up, and is still behind.
        assert!(!word(2, 4).is_news(Some(&word(3, 3)), &known));
    }

    #[test]
    fn a_sentinel_that_changes_its_mind_without_a_failover_is_believed() {
        let known = word(1, 5);
        assert!(word(2, 0).is_news(Some(&word(1, 5)), &known));
        assert!(word(2, None).is_news(Some(&word(1, None)), &word(1, None)));
        assert!(!word(2, None).is_news(Some(&word(2, None)), &word(1, None)));
        assert!(!word(2, None).is_news(None, &word(1, None)));
    }

    #[test]
    fn the_age_is_that_of_the_primary_that_is_named() {
        let place = Value::Array(vec![text("10.0.0.1"), text("6379")]);
        let told = |ip: &str| {
            let pairs = [
                ("ip", ip),
                ("port", "6379"),
                ("config-epoch", "7"),
                ("role-reported-time", "1500"),
            ];
            pairs.into_iter().map(|(name, value)| (text(name), text(value))).collect::<Vec<_>>()
        };
        let map = Value::Map(told("10.0.0.1"));
        let flat = Value::Array(told("10.0.0.1").into_iter().flat_map(|(a, b)| [a, b]).collect());
        for about in [map, flat] {
            let word = Word::read(&place, &about).unwrap().unwrap();
            assert_eq!((word.epoch, word.since), (Some(7), Duration::from_millis(1500)));
        }
        let other = Word::read(&place, &Value::Map(told("10.0.0.2"))).unwrap().unwrap();
        assert_eq!((other.epoch, other.since), (Some(7), Duration::ZERO));
        let silent = Word::read(&place, &Value::Nil).unwrap().unwrap();
        assert_eq!((silent.epoch, silent.since), (None, Duration::ZERO));
        assert_eq!(Word::read(&Value::Nil, &Value::Nil), Ok(None));
        assert!(Word::read(&Value::Okay, &Value::Nil).is_err());
    }
}
