//! The requests to a node and their replies as plain data, the same for every kind of node. [`crate::quorum`] decides
//! by them.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use uuid::Uuid;

use super::fencing::Fencing;
use super::label::Label;
use crate::runtime::environment;

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
    pub(crate) form: Form,
}

/// Which command acquires the keys of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// A refusal names those of the keys that others have.
    #[default]
    Keys,
    /// The keys are some of these. A refusal names all that others have.
    Slots(Arc<Slots>),
    /// The claim shares its only key with other readers.
    Read(Arc<Sides>),
    /// The claim has its only key alone, as with [`Self::Keys`], and takes turns with readers.
    Write(Arc<Sides>),
}

impl Form {
    /// Whether it is a side of a read/write lock, whose votes need a script.
    pub(crate) fn has_sides(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(_))
    }
}

/// The sides of a read/write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

/// The turn that a waiting caller of a read/write lock sets for its side. It is small, because every acquire has room
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedTurn {
    window_ms: NonZeroU16,
    lasts_ms: NonZeroU16,
}

impl WantedTurn {
    /// The side comes first for the window once the other side has left, and for `left` of the caller's wait until
    /// then, at most for three seconds. A waiting caller asks again before that.
    pub(crate) fn new(window: Duration, left: Duration) -> Self {
        let ms = |time: Duration, most: u16| {
            let ms = u16::try_from(time.as_millis()).unwrap_or(u16::MAX).min(most);
            NonZeroU16::new(ms).unwrap_or(NonZeroU16::MIN)
        };
        Self { window_ms: ms(window, u16::MAX), lasts_ms: ms(left, 3000) }
    }

    pub(crate) fn window(self) -> Duration {
        Duration::from_millis(self.window_ms.get().into())
    }

    pub(crate) fn lasts(self) -> Duration {
        Duration::from_millis(self.lasts_ms.get().into())
    }
}

/// The keys that a read/write lock needs in addition to its lock key.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sides {
    /// The set of readers.
    pub(crate) readers: String,
    /// Which side comes next.
    pub(crate) turn: String,
}

/// The keys of all permits of a semaphore, and which of them a claim has.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slots {
    pub(crate) all: Arc<[String]>,
    pub(crate) chosen: Vec<usize>,
}

/// The prefix of the token in a key that was released and remains for `min_hold`. Such a key has no owner: neither the
/// client that released it nor one that attached to it.
pub(crate) const KEPT_PREFIX: &str = "kept:";

/// The prefix of the token of the first reader in a key that readers share. It is in no token, so that such a key
/// belongs to no single reader. With the token, a forced release that arrives late deletes no key of later readers.
pub(crate) const SHARED_PREFIX: &str = "shared:";

impl Claim {
    /// Creates a claim with a new token, so that its delete can never affect the grant of another round.
    pub(crate) fn new(keys: Arc<[String]>, fences: Arc<[String]>, label: Option<&str>) -> Self {
        // Each token uses the randomness of the operating system. A generator in user space would be faster, but it
        // repeats itself in a machine that is restored from a snapshot. Two owners with the same token do not exclude
        // each other.
        let mut digits = Uuid::encode_buffer();
        let digits = &*environment::new_id().simple().encode_lower(&mut digits);
        let token =
            label.map_or_else(|| digits.into(), |label| [digits, ":", label].concat().into());
        Self { keys, fences, token, form: Form::Keys }
    }

    /// Returns the claim of the owner of this token, which exists already.
    pub(crate) fn of_owner(token: Arc<str>, keys: Arc<[String]>) -> Self {
        Self { keys, fences: Arc::default(), token, form: Form::Keys }
    }

    /// The keys that a refusal may name.
    pub(crate) fn places(&self) -> &[String] {
        match &self.form {
            Form::Slots(slots) => &slots.all,
            Form::Keys | Form::Read(_) | Form::Write(_) => &self.keys,
        }
    }

    /// Returns the value of keys that remain after their release.
    pub(crate) fn kept(&self) -> String {
        format!("{KEPT_PREFIX}{}", self.token)
    }
}

/// The maximum number of keys in one claim.
///
/// A server is busy with that many for about 5 ms and serves nothing else meanwhile. Reading the keys one by one would
/// take 200 ms or more. Before Redis 7.2, every read in a script remembers all of its keys.
pub(crate) const MAX_KEYS: usize = 1000;

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
    /// The turn of a read/write lock, if the caller waits for it.
    pub(crate) turn: Option<WantedTurn>,
}

impl VoteParams {
    /// Returns the parameters for a lease that the node has, or should have. Such a vote is not a first vote: the
    /// restart guard must not end a lease that a quorum still has.
    pub(crate) fn later(ttl: Duration, timeout: Duration, fencing: Fencing) -> Self {
        let (first, check, expect, turn) = (false, false, Expect::Unknown, None);
        Self { ttl, timeout, first, check, expect, fencing, turn }
    }
}

/// The result of an acquire on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// Granted. The keys have the claim's token and live for at least the TTL. With fencing, this is the token that the
    /// node now stores.
    Granted(Option<u64>),
    /// Held by another owner. Boxed, because votes are part of the future of an acquire.
    Held(Box<Refused>),
}

/// Why a node refused an acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// How long until the node can grant the claim, or `None` without a known end.
    pub(crate) left: Option<Duration>,
    /// Which of the claim's places others have.
    pub(crate) taken: Places,
    pub(crate) by: Blocker,
    /// The label of the owner whose keys are held longest. Of a semaphore, the owner whose permit must end last.
    pub(crate) holder: Option<Label>,
}

/// What refuses a claim. The last one explains most, if nodes differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blocker {
    /// Waiting callers of the other side come first. Otherwise the key is free, or readers have it.
    Turn,
    /// All keys have no owner, because they were released and remain for `min_hold`.
    Kept,
    Readers,
    #[default]
    Owner,
}

/// Positions in the keys of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(SmallVec<[u64; 1]>);

impl Places {
    pub(crate) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|bits| bits & (1 << (at % 64)) != 0)
    }

    /// Whether it has all positions below this number.
    pub(crate) fn all(&self, keys: usize) -> bool {
        (0..keys).all(|at| self.has(at))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }
}

impl FromIterator<usize> for Places {
    fn from_iter<I: IntoIterator<Item = usize>>(positions: I) -> Self {
        let mut places = Self::default();
        for at in positions {
            places.0.resize(places.0.len().max(at / 64 + 1), 0);
            places.0[at / 64] |= 1 << (at % 64);
        }
        places
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
    /// Removes their owner, and limits their TTL to this time. If it `lengthens`, a shorter TTL is set to it too.
    Stay {
        time: Duration,
        lengthens: bool,
    },
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
