//! What goes over the wire, and who sent it.

use std::time::Duration;

use crate::node::{Claim, Extension, Fencing, Vote};

/// What goes over the wire.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// `SET NX` and `GET`: a lease's first vote where one free key is expected.
    Attempt {
        claim: Claim,
        ttl: Duration,
        first: bool,
    },
    Acquire {
        claim: Claim,
        ttl: Duration,
        fencing: Fencing,
        first: bool,
    },
    Extend {
        claim: Claim,
        ttl: Duration,
        fencing: Fencing,
        check: bool,
    },
    /// At once, or after so long.
    Release {
        claim: Claim,
        stay: Duration,
    },
    /// How many replicas have what this connection wrote; answered once so many have, or after this time.
    Wait {
        replicas: u32,
        time: Duration,
    },
    /// The same, of a key that is on its way here.
    Asking(Box<Self>),
    /// Who has the slot.
    Slots {
        survey: u64,
    },
    /// Whether all before it was answered, that was asked by a map older than this.
    Ping {
        age: u64,
    },
    /// Deletes the keys whoever has them.
    Force {
        keys: Vec<String>,
    },
}

impl Request {
    /// A lease's first vote, which a node that restarted too recently refuses.
    pub(super) fn is_first(&self) -> bool {
        matches!(self, Self::Acquire { first: true, .. } | Self::Attempt { first: true, .. })
    }

    /// The claim whose keys it takes away.
    pub(super) fn gives_up(&self) -> Option<&Claim> {
        if let Self::Release { claim, .. } = self { Some(claim) } else { None }
    }

    /// The claim whose keys may be there because of it.
    pub(super) fn keeps(&self) -> Option<&Claim> {
        match self {
            Self::Attempt { claim, .. }
            | Self::Acquire { claim, .. }
            | Self::Extend { claim, .. } => Some(claim),
            Self::Release { .. }
            | Self::Force { .. }
            | Self::Wait { .. }
            | Self::Asking(_)
            | Self::Slots { .. }
            | Self::Ping { .. } => None,
        }
    }
}

/// Where to go on in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    Moved(usize),
    Ask(usize),
    TryAgain,
    /// The server is cut off from its cluster.
    Nobody,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Vote(Vote),
    Extension(Extension),
    Released(bool),
    /// It is served elsewhere.
    Sent(Redirect),
    /// Where the slot is, and since which epoch.
    Slots(usize, u64),
    Pong,
    /// So many replicas have it.
    Confirmed(usize),
    /// An error: nothing was written.
    Refused,
}

impl Answer {
    /// Whether a lease may count on it.
    pub(super) fn grants(&self) -> bool {
        matches!(self, Self::Vote(Vote::Granted(_)) | Self::Extension(Extension::Extended))
    }
}

/// One connection as the node knows it: client and epoch.
pub(super) type Peer = (usize, u32);
