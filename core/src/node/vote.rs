//! The requests to a node and their replies as plain data, the same for every kind of node. [`crate::quorum`] decides
//! by them.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::fencing::Fencing;
use super::label::Label;

/// What a round requests: these keys for the owner of this token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    /// The lock keys. They are acquired all or none.
    pub(crate) keys: Arc<[String]>,
    /// The keys that store fencing tokens, one for each lock key. Empty without fencing.
    pub(crate) fences: Arc<[String]>,
    /// The value of the keys, which identifies their owner. It has 32 hex digits, followed by a colon and the owner's
    /// label, if there is one. A held key contains nothing else, because other libraries compare the whole value.
    pub(crate) token: Arc<str>,
}

/// The prefix of the token in a key that was released and remains for `min_hold`. Such a key has no owner: neither the
/// client that released it nor one that attached to it.
pub(crate) const KEPT_PREFIX: &str = "kept:";

impl Claim {
    /// Creates a claim with a new token, so that its delete can never affect the grant of another round.
    pub(crate) fn new(keys: Arc<[String]>, fences: Arc<[String]>, label: Option<&str>) -> Self {
        // Each token uses the randomness of the operating system. A generator in user space would be faster, but it
        // repeats itself in a machine that is restored from a snapshot. Two owners with the same token do not exclude
        // each other.
        let mut digits = Uuid::encode_buffer();
        let digits = &*Uuid::new_v4().simple().encode_lower(&mut digits);
        let token =
            label.map_or_else(|| digits.into(), |label| [digits, ":", label].concat().into());
        Self { keys, fences, token }
    }

    /// Returns the value of keys that remain after their release.
    pub(crate) fn kept(&self) -> String {
        format!("{KEPT_PREFIX}{}", self.token)
    }
}

/// What the client knows about a lock before a round. It determines which commands the round sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No contention is known. Sends the cheapest command, which needs a second one if the lock is held.
    #[default]
    Free,
    /// Nothing is known. Sends one command that covers all cases.
    Unknown,
    /// Other clients compete for the lock. Of several nodes, one gets the command before the others.
    Contended,
}

/// The parameters of a vote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VoteParams {
    /// The TTL of the key, from the moment when the node runs the command.
    pub(crate) ttl: Duration,
    /// How long the caller waits for the reply. The node may reply later, but the caller then ignores it.
    pub(crate) timeout: Duration,
    /// Whether this is the first vote of a lease on this node. It is not sent to a server that restarted recently.
    pub(crate) first: bool,
    /// Whether the round only checks the lease. Its result extends nothing, so it does not wait for replicas or disks.
    pub(crate) check: bool,
    /// Whether another client may have the keys.
    pub(crate) expect: Expect,
    /// How the node's fencing token is treated.
    pub(crate) fencing: Fencing,
}

impl VoteParams {
    /// Returns the parameters for a lease that the node has, or should have. Such a vote is not a first vote: the
    /// restart guard must not end a lease that a quorum still has.
    pub(crate) fn later(ttl: Duration, timeout: Duration, fencing: Fencing) -> Self {
        Self { ttl, timeout, first: false, check: false, expect: Expect::Unknown, fencing }
    }
}

/// The result of an acquire on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// Granted. The keys have the claim's token and live for at least the TTL. With fencing, this is the token that the
    /// node now stores.
    Granted(Option<u64>),
    /// Held by another owner.
    Held(Refused),
}

/// Why a node refused an acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// How long the keys are held, or `None` without a known end.
    pub(crate) left: Option<Duration>,
    /// Which of the keys are held.
    pub(crate) taken: Taken,
    /// The label of the owner whose keys are held longest. Boxed, because votes are part of the future of an acquire.
    pub(crate) holder: Option<Box<Label>>,
}

/// Which keys of a claim are held, as one bit for each of the first 63 keys. The other keys are unknown. The last bit
/// tells whether the keys have no owner, because they were released and remain for `min_hold`.
///
/// It is used for fairness only. For a key beyond the 63rd, a caller may be admitted too early, and the nodes then
/// refuse it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken(u64);

impl Taken {
    /// The number of keys that have a bit.
    pub(crate) const MAX_KEYS: usize = 63;
    const NO_OWNER: u64 = 1 << Self::MAX_KEYS;

    /// Returns zero beyond the last key with a bit, so that another bit is not used.
    fn bit(at: usize) -> u64 {
        if at < Self::MAX_KEYS { 1 << at } else { 0 }
    }

    pub(crate) fn has(self, at: usize) -> bool {
        self.0 & Self::bit(at) != 0
    }

    /// Whether the keys have no owner.
    pub(crate) fn are_kept(self) -> bool {
        self.0 & Self::NO_OWNER != 0
    }

    pub(crate) fn that_stay(self, kept: bool) -> Self {
        let keys = self.0 & !Self::NO_OWNER;
        Self(if kept { keys | Self::NO_OWNER } else { keys })
    }

    /// Whether it covers all keys, for this number of keys.
    pub(crate) fn all(self, keys: usize) -> bool {
        // False for more keys than have a bit. Waiting callers are then admitted and get their result from the nodes.
        (0..keys).all(|at| self.has(at))
    }
}

impl FromIterator<usize> for Taken {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        Self(places.into_iter().fold(0, |taken, at| taken | Self::bit(at)))
    }
}

/// The result of an extend on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    /// The claim owns the keys, and they live for at least the requested time.
    Extended,
    /// A key is missing, so the lease is incomplete on this node. A later round may restore it.
    Missing,
    /// A key has another owner.
    Taken,
}

/// What a release does with the claim's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseMode {
    Delete,
    /// Deletes them, but they have probably expired. A server that tracks reads would remember absent keys until they
    /// are written, so it need not track these.
    DeleteLate,
    /// Deletes what a failed round may have set. If deletes must be dropped, these are the first.
    Undo,
    /// Limits their TTL to this, and removes their owner.
    Stay(Duration),
}

/// How many bytes of a value an inspection reads. Tokens are shorter.
pub(crate) const MAX_INSPECTED: usize = 128;

/// The holder of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The first [`MAX_INSPECTED`] bytes of the key's value. With the prefix [`KEPT_PREFIX`], the key has no holder.
    pub(crate) token: String,
    /// The remaining time by the node's own clock when it replied, or `None` without a known end.
    pub(crate) remaining: Option<Duration>,
}
