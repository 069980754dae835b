//! The options that the bindings accept. Here are the tables for locks, and [`super::client_options`] has that for
//! clients.
//!
//! Each row has the name, kind, default, rule and description. The bindings convert by the tables, and
//! `scripts/reference` generates the page Options from them. The rules are checked in `options::lock` and
//! `options::client`.
//!
//! A row makes the bindings convert the option. Its parameter and its type are also declared in `describe.rs`
//! (clients: `construct.rs`) and `types.py` of Python, and in `options.ts`. For a name that is not in a table, the
//! error says what to use instead ([`super::args`]).

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::node::address_map::AddressMapOption;
use crate::node::credentials::Ask;
use crate::node::{LabelOption, Pem};
use crate::options::lock::{Options, Purpose, Unit};
use crate::primitive::{Kind as LockKind, Side};
use crate::text::spelled;

/// The kind of value that an option takes, and the function that stores it.
pub enum Kind<T> {
    /// A time in the caller's unit: seconds in Python, milliseconds in Node.
    Time(fn(&mut T, Duration)),
    /// A time. Infinity is stored as `None`.
    TimeOrForEver(fn(&mut T, Option<Duration>)),
    /// A time. Infinity is stored as `None`, and so is the caller's null value.
    TimeOrNull(fn(&mut T, Option<Duration>)),
    /// True or false.
    Switch(fn(&mut T, bool)),
    /// A whole number, and the least that the rule allows.
    Count(u32, fn(&mut T, u32)),
    /// Text.
    Text(fn(&mut T, String)),
    /// A label as text, true for that of the process, or false for none.
    Label(fn(&mut T, LabelOption)),
    /// The path of a PEM file, or its content.
    Pem(fn(&mut T, Pem)),
    /// A callback that supplies credentials.
    Credentials(fn(&mut T, Arc<Ask>)),
    /// A mapping of addresses, or a function that maps one.
    AddressMap(fn(&mut T, AddressMapOption)),
}

/// One option.
pub struct Row<T: 'static> {
    /// The name as Python and Rust write it. Node.js converts it to camel case.
    pub name: &'static str,
    /// The kind of value.
    pub kind: Kind<T>,
    /// The default, in Markdown.
    pub default: &'static str,
    /// What a value must be, in Markdown. Empty if every value is allowed.
    pub rule: &'static str,
    /// What the option does, in Markdown and without the last full stop.
    pub about: &'static str,
}

/// The options of a lock, in the order of the documentation.
///
/// The defaults here are text for the documentation. Their values are in `options::lock`.
pub const LOCK_OPTIONS: &[Row<Options>] = &[
    Row {
        name: "ttl",
        kind: Kind::Time(|options, ttl| options.ttl = ttl),
        default: "10 s",
        rule: "at least 100 ms. With several nodes at most `restart_guard`",
        about: "lifetime of the lease without renewal",
    },
    Row {
        name: "wait",
        kind: Kind::TimeOrForEver(|options, wait| options.wait = Some(wait)),
        default: "forever for the holder, `unavailable_after` for failed nodes",
        rule: "",
        about: "maximum time that an acquire waits, both for the holder and for failed nodes. 0 tries once",
    },
    Row {
        name: "renew",
        kind: Kind::Switch(|options, renew| options.renew = renew),
        default: "on",
        rule: "",
        about: "renew the lease at a third of its TTL until it is released",
    },
    Row {
        name: "max_hold",
        kind: Kind::Time(|options, max_hold| options.max_hold = Some(max_hold)),
        default: "no limit",
        rule: "at least 100 ms",
        about: "maximum time to hold the lock. The lease is then lost with reason `max_hold`",
    },
    Row {
        name: "min_hold",
        kind: Kind::Time(|options, min_hold| options.min_hold = min_hold),
        default: "0",
        rule: "",
        about: "minimum time to keep the key, even if the lease is released earlier. Lets hosts with skewed clocks \
                run a scheduled job only once",
    },
    Row {
        name: "node_timeout",
        kind: Kind::Time(|options, timeout| options.node_timeout = Some(timeout)),
        default: "the client's, otherwise min(1 s, `ttl` / 5). With `fsync` min(3 s, `ttl` / 3)",
        rule: "above 0 and below `ttl`",
        about: "timeout for the reply of one node",
    },
    Row {
        name: "fencing",
        kind: Kind::Switch(|options, fencing| options.fencing = fencing),
        default: "off",
        rule: "",
        about: "assign a fencing token that is larger than those of all earlier leases of the lock",
    },
    Row {
        name: "label",
        kind: Kind::Label(|options, label| options.label = Some(label)),
        default: "the client's, otherwise none",
        rule: "1 to 48 ASCII letters, digits or characters of `._@-`. Or true or false",
        about: "label of the holder in the value of the key, which other clients show. \
                True writes the host and the process",
    },
];

/// The options of a semaphore, which also has those of a lock, except for `fencing`.
pub const SEMAPHORE_OPTIONS: &[Row<Options>] = &[
    Row {
        name: "limit",
        kind: Kind::Count(1, |options, limit| options.kind = LockKind::Semaphore { limit }),
        default: "none, it is required",
        rule: "1 to 1000. Of different limits the largest applies",
        about: "number of permits. Meant for up to 100, because each acquire reads the keys of all permits",
    },
    Row {
        name: "permits",
        kind: Kind::Count(1, |options, permits| options.permits = permits),
        default: "1",
        rule: "1 to `limit`",
        about: "number of permits that each lease has. An acquire gets all of them or none",
    },
];

/// The option of a run that happens once, which also has those of a lock, except for `min_hold` and
/// `fencing`.
pub const ONCE_OPTIONS: &[Row<Options>] = &[Row {
    name: "remember",
    kind: Kind::Time(|options, remember| {
        options.purpose = Purpose::Once;
        options.min_hold = remember;
    }),
    default: "none, it is required",
    rule: "above 0",
    about: "how long a successful run is remembered, from its start. Another run is skipped until then",
}];

/// The option of both sides of a read/write lock, which also have those of a lock. Bindings set it, not programs.
const SIDE_OPTIONS: &[Row<Options>] = &[Row {
    name: "shared",
    kind: Kind::Switch(|options, shared| {
        options.kind = LockKind::ReadWrite(if shared { Side::Read } else { Side::Write });
    }),
    default: "none, it is required",
    rule: "",
    about: "whether other readers may have the lock at the same time",
}];

/// The option of an election, which also has most of those of a lock. Bindings set it, not programs.
const LEADER_OPTIONS: &[Row<Options>] = &[Row {
    name: "leads",
    kind: Kind::Switch(|options, leads| {
        options.purpose = if leads { Purpose::Leader } else { Purpose::Section };
    }),
    default: "none, it is required",
    rule: "",
    about: "whether the lock elects a leader",
}];

/// The tables with the options of all primitives.
pub(super) const LOCK_TABLES: &[&[Row<Options>]] =
    &[SIDE_OPTIONS, LEADER_OPTIONS, SEMAPHORE_OPTIONS, ONCE_OPTIONS, LOCK_OPTIONS];

/// What a function of a binding describes, which decides on its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Described {
    /// A mutex.
    Lock,
    /// A semaphore, which has a `limit`.
    Semaphore,
    /// A run that happens once, which has `remember`.
    Once,
    /// An election, which `leads`.
    Leader,
    /// A side of a read/write lock, which is `shared` or not.
    Side {
        /// Whether it is the side of readers.
        shared: bool,
    },
}

impl Described {
    /// Returns what has these options. `shared` is the value of that option, and `has` tells whether there is another.
    ///
    /// # Errors
    ///
    /// The first one of `has`.
    pub fn described_by<E>(
        shared: Option<bool>,
        has: impl Fn(&str) -> Result<bool, E>,
    ) -> Result<Self, E> {
        if let Some(shared) = shared {
            return Ok(Self::Side { shared });
        }
        for (option, described) in
            [("limit", Self::Semaphore), ("remember", Self::Once), ("leads", Self::Leader)]
        {
            if has(option)? {
                return Ok(described);
            }
        }
        Ok(Self::Lock)
    }

    /// The option that a binding sets for it, and programs do not pass.
    pub fn mark(self) -> Option<(&'static str, bool)> {
        match self {
            Self::Side { shared } => Some(("shared", shared)),
            Self::Leader => Some(("leads", true)),
            Self::Lock | Self::Semaphore | Self::Once => None,
        }
    }

    /// Returns the rows of the options that programs pass.
    pub fn options(self) -> impl Iterator<Item = &'static Row<Options>> {
        self.rows().filter(move |row| self.mark().is_none_or(|(mark, _)| row.name != mark))
    }

    /// Returns the rows of its options.
    pub fn rows(self) -> impl Iterator<Item = &'static Row<Options>> {
        let (own, without): (&[_], &[_]) = match self {
            Self::Lock => (&[], &[]),
            Self::Semaphore => (SEMAPHORE_OPTIONS, &["fencing"]),
            Self::Once => (ONCE_OPTIONS, &["min_hold", "fencing"]),
            Self::Leader => (LEADER_OPTIONS, &["wait", "renew", "min_hold"]),
            Self::Side { shared: true } => (SIDE_OPTIONS, &["fencing", "min_hold"]),
            Self::Side { shared: false } => (SIDE_OPTIONS, &[]),
        };
        own.iter().chain(LOCK_OPTIONS).filter(|row| !without.contains(&row.name))
    }
}

impl<T> Row<T> {
    /// Stores a value.
    ///
    /// # Errors
    ///
    /// `Invalid` for a value of the wrong kind, or a number that is not a valid time.
    pub(super) fn set(&self, into: &mut T, value: &Value, unit: Unit) -> Result<()> {
        match (&self.kind, value) {
            // The only kinds that accept infinity. The others report it as an error.
            (Kind::TimeOrForEver(set) | Kind::TimeOrNull(set), Value::Number(f64::INFINITY)) => {
                set(into, None);
            }
            (Kind::TimeOrForEver(set) | Kind::TimeOrNull(set), Value::Number(time)) => {
                set(into, Some(unit.duration(self.name, *time)?));
            }
            (Kind::Time(set), Value::Number(time)) => set(into, unit.duration(self.name, *time)?),
            (Kind::Count(least, set), Value::Number(count)) => {
                set(into, whole(self.name, *count, *least)?);
            }
            (Kind::Switch(set), Value::Switch(yes)) => set(into, *yes),
            (Kind::Text(set), Value::Text(text)) => set(into, text.clone()),
            (Kind::Label(set), Value::Text(text)) => {
                set(into, LabelOption::Text(text.as_str().into()));
            }
            (Kind::Label(set), Value::Switch(yes)) => {
                set(into, if *yes { LabelOption::Host } else { LabelOption::Off });
            }
            (Kind::Pem(set), Value::Pem(pem)) => set(into, pem.clone()),
            (Kind::Credentials(set), Value::Credentials(ask)) => set(into, Arc::clone(ask)),
            (Kind::AddressMap(set), Value::AddressMap(map)) => set(into, map.clone()),
            _ => {
                return Err(Error::invalid(format!(
                    "{} has a value of the wrong type",
                    spelled(self.name)
                )));
            }
        }
        Ok(())
    }
}

/// Converts a number to a count. Some languages only have floats. `least` is for the error, as rules are checked later.
fn whole(name: &str, number: f64, least: u32) -> Result<u32> {
    let whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, and within bounds"
    )]
    whole.then_some(number as u32).ok_or_else(|| {
        let name = spelled(name);
        Error::invalid(format!("{name} must be a whole number, {least} or more (got {number})"))
    })
}

/// The value of an option, as the bindings pass it.
#[derive(Clone)]
pub enum Value {
    /// A time in the caller's unit, or a count.
    Number(f64),
    /// True or false.
    Switch(bool),
    /// Text.
    Text(String),
    /// The path of a PEM file, or its content.
    Pem(Pem),
    /// A callback that supplies credentials.
    Credentials(Arc<Ask>),
    /// A map of announced addresses.
    AddressMap(AddressMapOption),
}

macro_rules! from {
    ($($kind:ident($type:ty)),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$kind(value)
            }
        }
    )*};
}

from!(
    Number(f64),
    Switch(bool),
    Text(String),
    Pem(Pem),
    Credentials(Arc<Ask>),
    AddressMap(AddressMapOption)
);
