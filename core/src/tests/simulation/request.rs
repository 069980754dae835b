//! The messages of the simulated network, and their senders.

use std::time::Duration;

use crate::node::{Claim, Extension, Fencing, Holder, Vote};

/// A request.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// `SET NX` and `GET`: a lease's first vote if one key is expected to be free.
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
    /// Deletes the keys immediately, or lets them stay for this time.
    Release {
        claim: Claim,
        stay: Duration,
    },
    /// Requests the number of replicas that have the writes of this connection. The reply comes when enough have them
    /// or when the time is over.
    Wait {
        replicas: u32,
        time: Duration,
    },
    /// The same request for a key that is being migrated to this server.
    Asking(Box<Self>),
    /// Requests the owner of the slot.
    Slots {
        discovery: u64,
    },
    /// Reads the owner of the key.
    Inspect {
        key: String,
    },
}

impl Request {
    /// Whether this is a lease's first vote, which a recently restarted node refuses.
    pub(super) fn is_first(&self) -> bool {
        matches!(self, Self::Acquire { first: true, .. } | Self::Attempt { first: true, .. })
    }

    /// The claim whose keys this request deletes.
    pub(super) fn gives_up(&self) -> Option<&Claim> {
        if let Self::Release { claim, .. } = self { Some(claim) } else { None }
    }

    /// The claim whose keys this request may create.
    pub(super) fn keeps(&self) -> Option<&Claim> {
        match self {
            Self::Attempt { claim, .. }
            | Self::Acquire { claim, .. }
            | Self::Extend { claim, .. } => Some(claim),
            Self::Release { .. }
            | Self::Inspect { .. }
            | Self::Wait { .. }
            | Self::Asking(_)
            | Self::Slots { .. } => None,
        }
    }
}

/// The next server for a command in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    Moved(usize),
    Ask(usize),
    TryAgain,
    /// The server is cut off from its cluster.
    Down,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Vote(Vote),
    Extension(Extension),
    Released(bool),
    Holder(Option<Holder>),
    /// A redirect to another server.
    Sent(Redirect),
    /// The owner of the slot, and the epoch of that assignment.
    Slots(usize, u64),
    /// The number of replicas that have the write.
    Confirmed(usize),
    /// An error. No data was written.
    Refused,
}

impl Answer {
    /// Whether a lease may count this reply.
    pub(super) fn grants(&self) -> bool {
        matches!(self, Self::Vote(Vote::Granted(_)) | Self::Extension(Extension::Extended))
    }
}

/// A connection as the node sees it: client and epoch.
pub(super) type Peer = (usize, u32);
