//! What a node is asked for, and what it answers: plain data, the same for every kind of node.
//!
//! No behaviour but [`Taken`]'s bits: how a question travels is the node's business, what answers add up to the
//! quorum's.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::fencing::Fencing;

/// What a round asks for: these keys, for the owner of this token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    /// The lock keys: all of them or none.
    pub(crate) keys: Arc<[String]>,
    /// Where fencing tokens are kept, one for each key; empty without fencing.
    pub(crate) fences: Arc<[String]>,
    /// Whose the keys are to be: their value.
    /// 32 hex digits. Nothing else goes into a key that is held: other libraries compare the whole value.
    pub(crate) token: Arc<str>,
}

/// What stands before the token in a key that was released and stays for `min_hold`: it is nobody's then, neither of who
/// released it nor of who has attached to it.
pub(crate) const KEPT: &str = "kept:";

impl Claim {
    /// A claim under a token of its own: a delete of it can never hit another round's grant.
    pub(crate) fn new(keys: Arc<[String]>, fences: Arc<[String]>) -> Self {
        // From the system's randomness, one call each. A generator in user space is faster by some 4 % of a
        // client's work, and repeats itself in a machine that is restored from a snapshot: two owners with one
        // token exclude nobody.
        let mut digits = Uuid::encode_buffer();
        let token = Arc::from(&*Uuid::new_v4().simple().encode_lower(&mut digits));
        Self { keys, fences, token }
    }

    /// What its keys hold once they are released and stay.
    pub(crate) fn kept(&self) -> String {
        format!("{KEPT}{}", self.token)
    }
}

/// What is known of a lock before a round asks for it, which decides how it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Nobody is known to want it: asked for in the way that is cheapest then, though it takes a second question where
    /// somebody has it.
    Free,
    /// Anything: asked for in one question.
    Unknown,
    /// Others want it: over several nodes one is asked before the others.
    Contended,
}

/// How a vote is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VoteParams {
    /// What the key is to live for, from the moment the node runs the command.
    pub(crate) ttl: Duration,
    /// How long the caller listens for the answer.
    /// The node may take longer: a late answer is still an answer, only to nobody.
    pub(crate) timeout: Duration,
    /// A lease's first vote here: a node that restarted too recently must refuse it.
    pub(crate) first: bool,
    /// It only asks whether the lease is whole: nothing counts for longer by the answer, so that neither replicas nor
    /// disks are waited for.
    pub(crate) check: bool,
    /// Whether somebody may have the keys.
    pub(crate) expect: Expect,
    /// What becomes of the fencing token that the node keeps.
    pub(crate) fencing: Fencing,
}

impl VoteParams {
    /// How a node that has a lease, or should have it, is asked to have it for longer.
    /// No first vote: the restart guard has no say, or a restart would end a lease that a quorum still has.
    pub(crate) fn later(ttl: Duration, timeout: Duration, fencing: Fencing) -> Self {
        Self { ttl, timeout, first: false, check: false, expect: Expect::Unknown, fencing }
    }
}

/// A node's answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// With the fencing token that the node now keeps, where one was asked for.
    /// The keys are the claim's, and live for at least the ttl.
    Granted(Option<u64>),
    /// Another owner's, for this long; `None`: without a known end. And which of the keys.
    Held(Option<Duration>, Taken),
}

/// Which of a claim's keys are not to be had: a bit for each of the first 64, by its place. Of more nothing is known.
///
/// It is for fairness alone: of a key beyond the 64th a caller may be let on too early, and is refused by the
/// nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// A bit for each.
    keys: u64,
    /// Nobody has them: they were released, and stay for `min_hold`.
    pub(crate) kept: bool,
}

impl Taken {
    /// Zero beyond the 64th: no bit, rather than another key's.
    fn bit(at: usize) -> u64 {
        u32::try_from(at).ok().and_then(|at| 1_u64.checked_shl(at)).unwrap_or(0)
    }

    /// Whether others have the key at this place.
    pub(crate) fn has(self, at: usize) -> bool {
        self.keys & Self::bit(at) != 0
    }

    /// The same, where nobody has them but they stay, or do not.
    pub(crate) fn that_stay(self, kept: bool) -> Self {
        Self { kept, ..self }
    }

    /// Whether it is all of so many keys.
    pub(crate) fn all(self, keys: usize) -> bool {
        // Of more than 64 never: then those behind are let on, and find out.
        (0..keys).all(|at| self.has(at))
    }
}

impl FromIterator<usize> for Taken {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        let keys = places.into_iter().fold(0, |taken, at| taken | Self::bit(at));
        Self { keys, kept: false }
    }
}

/// A node's answer to an extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    /// The keys are ours, and live for at least as long as was asked.
    Extended,
    /// A key is gone.
    /// So the lease is not whole there; a later round may put it back.
    Missing,
    /// A key is another owner's.
    Taken,
}

/// Who has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The key's value; with [`KEPT`] before it nobody has it.
    pub(crate) token: String,
    /// What is left of it; `None`: without a known end.
    /// By the node's own clock, at the time of the answer.
    pub(crate) remaining: Option<Duration>,
}
