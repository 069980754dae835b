//! What a lock locks: the keys of a mutex, or some permits of a semaphore.
//!
//! A primitive decides which keys a round claims, which callers of this process may try at the same time, and how an
//! error describes a refusal. Everything else is the same for all of them: `acquire` runs the rounds, and a lease owns
//! whole keys, whichever primitive granted it.

mod semaphore;

use std::sync::Arc;

use crate::error::seconds;
use crate::node::{Claim, Places, Refused};
use crate::text::spelled;

pub(crate) use semaphore::Semaphore;

/// The kind of primitive that an option selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One owner has all keys.
    #[default]
    Mutex,
    /// At most this many permits have owners at a time.
    Semaphore { limit: u32 },
}

/// A primitive with its keys.
#[derive(Debug)]
pub(crate) enum Primitive {
    Mutex {
        /// The keys that store the fencing tokens, one for each lock key. Empty without fencing.
        fences: Arc<[String]>,
    },
    Semaphore(Semaphore),
}

/// The part of a line of callers that one caller takes while it tries, out of the whole line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) own: u32,
    pub(crate) whole: u32,
}

impl Share {
    /// The share of a caller that tries alone.
    pub(crate) const WHOLE: Self = Self { own: 1, whole: 1 };
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
        }
    }

    /// The keys that a claim may have.
    pub(crate) fn places<'a>(&'a self, identity: &'a [String]) -> &'a [String] {
        match self {
            Self::Mutex { .. } => identity,
            Self::Semaphore(semaphore) => semaphore.slots(),
        }
    }

    /// Whether the next round can win other places, although others have these.
    pub(crate) fn has_open(&self, taken: &Places) -> bool {
        match self {
            Self::Mutex { .. } => false,
            Self::Semaphore(semaphore) => semaphore.has_open(taken),
        }
    }

    /// Whether one owner excludes all others, so that clients take turns.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self, Self::Mutex { .. })
    }

    /// Describes a refusal for messages. `holder` is the text about the holder, if it is known.
    pub(crate) fn describe(&self, refused: &Refused, holder: &str) -> String {
        if let Self::Semaphore(semaphore) = self {
            return semaphore.describe(refused);
        }
        match (refused.left.map(seconds), refused.kept) {
            (None, true) => {
                "it was released, but its key has no TTL and stays until it is deleted".into()
            }
            (None, false) => format!("it is already held{holder}, and its key has no TTL"),
            (Some(left), true) => {
                let option = spelled("min_hold");
                format!("it was released, but its key stays for {left} because of {option}")
            }
            (Some(left), false) => {
                format!("it is already held{holder}, and expires in {left} unless renewed")
            }
        }
    }
}
