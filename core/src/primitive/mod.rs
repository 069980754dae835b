//! What a lock locks: the keys of a mutex, some permits of a semaphore, or a side of a read/write lock.
//!
//! A primitive decides which keys a round claims, which callers of this process may try at the same time, and how an
//! error describes a refusal. Everything else is the same for all of them: `acquire` runs the rounds, and a lease owns
//! whole keys, whichever primitive granted it.

mod rwlock;
mod semaphore;

use std::sync::Arc;
use std::time::Duration;

use crate::error::seconds;
use crate::node::{Blocker, Claim, Places, Refused, WantedTurn};
use crate::text::spelled;

pub(crate) use crate::node::Side;
pub(crate) use rwlock::ReadWrite;
pub(crate) use semaphore::Semaphore;

/// The kind of primitive that an option selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One owner has all keys.
    #[default]
    Mutex,
    /// At most this many permits have owners at a time.
    Semaphore { limit: u32 },
    /// Any number of readers have the key, or one writer.
    ReadWrite(Side),
}

/// A primitive with its keys.
#[derive(Debug)]
pub(crate) enum Primitive {
    Mutex {
        /// The keys that store the fencing tokens, one for each lock key. Empty without fencing.
        fences: Arc<[String]>,
    },
    Semaphore(Semaphore),
    ReadWrite(ReadWrite),
}

/// The part of a line of callers that one caller takes while it tries, out of the whole line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) own: u32,
    pub(crate) whole: u32,
}

impl Share {
    /// The share of a caller that tries alone, also among readers.
    pub(crate) const WHOLE: Self = Self { own: u32::MAX, whole: u32::MAX };
}

/// Which places a claim should have, if it can choose.
#[derive(Default)]
pub(crate) struct Preference {
    /// The places that others have on some node. They are claimed if there are too few others.
    pub(crate) busy: Places,
    /// The places that others have on too many nodes for a quorum. They are claimed last.
    pub(crate) closed: Places,
    /// Where the search for others begins. Callers of one client begin at different places.
    pub(crate) first: usize,
}

impl Primitive {
    pub(crate) fn share(&self) -> Share {
        match self {
            Self::Mutex { .. } => Share::WHOLE,
            Self::Semaphore(semaphore) => semaphore.share(),
            Self::ReadWrite(lock) => lock.share(),
        }
    }

    /// Returns the claim of one round, with a new token.
    pub(crate) fn claim(
        &self,
        identity: &Arc<[String]>,
        preference: &Preference,
        label: Option<&str>,
    ) -> Claim {
        match self {
            Self::Mutex { fences } => Claim::new(Arc::clone(identity), Arc::clone(fences), label),
            Self::Semaphore(semaphore) => semaphore.claim(preference, label),
            Self::ReadWrite(lock) => lock.claim(identity, label),
        }
    }

    /// Returns the claim of the owner of this token, which exists already. `None` if the token does not tell what it
    /// owns.
    pub(crate) fn claim_of(&self, token: Arc<str>, identity: &Arc<[String]>) -> Option<Claim> {
        match self {
            // A fencing token stays with the owner that acquired it.
            Self::Mutex { .. } => Some(Claim::of_owner(token, Arc::clone(identity))),
            Self::Semaphore(_) => None,
            Self::ReadWrite(lock) => Some(lock.claim_of(token, identity)),
        }
    }

    /// The turn that a caller sets which waits for this long. `None` without sides. `rounds` is the time of some round
    /// trips.
    pub(crate) fn turn(
        &self,
        rounds: impl FnOnce() -> Option<Duration>,
        left: impl FnOnce() -> Duration,
    ) -> Option<WantedTurn> {
        self.has_turns().then(|| WantedTurn::new(ReadWrite::window(rounds()), left()))
    }

    /// Whether two sides take turns.
    pub(crate) fn has_turns(&self) -> bool {
        matches!(self, Self::ReadWrite(_))
    }

    /// The keys that a claim may have.
    pub(crate) fn places<'a>(&'a self, identity: &'a [String]) -> &'a [String] {
        match self {
            Self::Mutex { .. } | Self::ReadWrite(_) => identity,
            Self::Semaphore(semaphore) => semaphore.slots(),
        }
    }

    /// Whether the next round can win other places, although others have these.
    pub(crate) fn has_open(&self, taken: &Places) -> bool {
        match self {
            Self::Mutex { .. } | Self::ReadWrite(_) => false,
            Self::Semaphore(semaphore) => semaphore.has_open(taken),
        }
    }

    /// Whether one owner excludes all others, so that clients take turns.
    pub(crate) fn is_exclusive(&self) -> bool {
        match self {
            Self::Mutex { .. } => true,
            Self::Semaphore(_) => false,
            Self::ReadWrite(lock) => lock.side == Side::Write,
        }
    }

    /// Whether all of its places belong to one owner or to readers, and not to several owners.
    pub(crate) fn is_whole(&self) -> bool {
        !matches!(self, Self::Semaphore(_))
    }

    /// What an owner has that waits for itself, for messages.
    pub(crate) fn own_part(&self) -> &'static str {
        if self.is_whole() { "it" } else { "too many of its permits" }
    }

    /// Describes a refusal for messages. `holder` is the text about the holder, if it is known.
    pub(crate) fn describe(&self, refused: &Refused, holder: &str) -> String {
        match self {
            Self::Mutex { .. } => {}
            Self::Semaphore(semaphore) => return semaphore.describe(refused, holder),
            Self::ReadWrite(lock) => {
                if let Some(text) = lock.describe(refused, holder) {
                    return text;
                }
            }
        }
        match (refused.left.map(seconds), refused.by) {
            (None, Blocker::Kept) => {
                "it was released, but its key has no TTL and stays until it is deleted".into()
            }
            (Some(left), Blocker::Kept) => {
                // A run that happens once keeps its key too.
                let options = format!("{} or {}", spelled("min_hold"), spelled("remember"));
                format!("it was released, but its key stays for {left} because of {options}")
            }
            (Some(left), Blocker::Readers) => {
                format!("readers hold it. The last one ends in at most {left} unless renewed")
            }
            (None, _) => format!("it is already held{holder}, and its key has no TTL"),
            (Some(left), _) => {
                format!("it is already held{holder}, and expires in {left} unless renewed")
            }
        }
    }
}
