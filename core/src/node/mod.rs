//! One logical Redis, as the algorithm sees it: it votes, and it tells when a key changed.

mod address;
mod changes;
mod connection;
mod memory;
mod redis;
mod reply;
mod roster;
mod script;
mod tls;
mod watch;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::fence::SLACK;

pub(crate) use address::Address;
use address::Server;
pub(crate) use changes::Changes;
pub(crate) use connection::Target;
pub(crate) use memory::MemoryNode;
pub(crate) use redis::RedisNode;
pub(crate) use roster::Roster;
pub(crate) use tls::Tls;
pub use tls::TlsOptions;
pub(crate) use watch::{Change, Watch};

/// What a round asks for: these keys, for the owner of this token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub(crate) keys: Arc<[String]>,
    /// Where fencing tokens are kept, one for each key; empty without fencing.
    pub(crate) fences: Arc<[String]>,
    pub(crate) token: Arc<str>,
}

impl Claim {
    /// A claim under a token of its own: a delete of it can never hit another round's grant.
    pub(crate) fn new(keys: Arc<[String]>, fences: Arc<[String]>) -> Self {
        let token = uuid::Uuid::new_v4().simple().to_string().into();
        Self { keys, fences, token }
    }
}

/// A node's answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// With the fencing token that the node now keeps, where one was asked for.
    Granted(Option<u64>),
    /// Another owner's, for this long; `None`: without a known end. And which of the keys.
    Held(Option<Duration>, Taken),
}

/// Which of a claim's keys others have: a bit for each of the first 64, by its place. Of more nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken(u64);

impl Taken {
    fn bit(at: usize) -> u64 {
        u32::try_from(at).ok().and_then(|at| 1_u64.checked_shl(at)).unwrap_or(0)
    }

    pub(crate) fn has(self, at: usize) -> bool {
        self.0 & Self::bit(at) != 0
    }

    /// Whether it is all of so many keys.
    pub(crate) fn all(self, keys: usize) -> bool {
        (0..keys).all(|at| self.has(at))
    }
}

impl FromIterator<usize> for Taken {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        Self(places.into_iter().fold(0, |taken, at| taken | Self::bit(at)))
    }
}

/// A node's answer to an extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    Extended,
    Missing,
    Taken,
}

/// Who has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) token: String,
    pub(crate) remaining: Option<Duration>,
}

/// Why a node gave no answer that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    text: Arc<str>,
    quote: Option<Quote>,
    invalid: bool,
}

/// A server's own words, which are not shown before a password that they repeat was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Quote {
    Raw(Arc<str>, &'static str),
    Shown(Arc<str>, &'static str),
}

impl Fault {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into().into(), quote: None, invalid: false }
    }

    /// The fault in the server's words, between ours.
    fn saying(self, words: &str, after: &'static str) -> Self {
        Self { quote: Some(Quote::Raw(words.into(), after)), ..self }
    }

    /// The fault with what the server said as everybody may see it.
    fn hushed(self, server: &Server) -> Self {
        let quote = match self.quote {
            Some(Quote::Raw(words, after)) => Some(Quote::Shown(server.hush(&words).into(), after)),
            clean => clean,
        };
        Self { quote, ..self }
    }

    /// A fault that no retry can mend: the caller's own options are wrong.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { invalid: true, ..Self::new(text) }
    }

    pub(crate) fn is_invalid(&self) -> bool {
        self.invalid
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.quote {
            None => Ok(()),
            Some(Quote::Raw(_, after)) => write!(f, "(unread){after}"),
            Some(Quote::Shown(words, after)) => write!(f, "{words}{after}"),
        }
    }
}

/// An answer on its way. The command was sent when the method returned; dropping this unsends nothing.
pub(crate) type Reply<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

/// How a vote is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// What the key is to live for, from the moment the node runs the command.
    pub(crate) ttl: Duration,
    /// How long the caller listens for the answer.
    pub(crate) patience: Duration,
    /// A lease's first vote here: a node that restarted too recently must refuse it.
    pub(crate) first: bool,
    /// The keys are probably free: a way of asking that is cheaper then, and takes a second question otherwise, is right.
    pub(crate) likely: bool,
    pub(crate) fencing: Fencing,
}

/// No fencing token is this large: above it the scripts' numbers, and JavaScript's, lose digits.
const ABOVE: u64 = 1 << 53;
/// Further ahead of a client's clock, in microseconds, than any clock of a node or another client: a hundred years, as a
/// clock may have begun in 1970.
const LEAP: u64 = 100 * 31_557_600 * 1_000_000;
pub(crate) const IMPOSSIBLE: &str =
    "no client can have stored the fencing token that it answers: docs/fencing.md, \"Repair\"";

/// What becomes of the fencing token that a node keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fencing {
    Off,
    /// A new one, larger than the last: this one, in microseconds of the client's clock, if the node's agrees.
    Propose(u64),
    /// The last, or this one if it is larger.
    AtLeast(u64),
}

impl Fencing {
    /// What a lease with this token asks for after its first round.
    pub(crate) fn keep(token: Option<u64>) -> Self {
        token.map_or(Self::Off, Self::AtLeast)
    }

    /// What a node keeps instead of `stored`, by its own clock; both in microseconds. A fault where no client can have
    /// stored that: nothing is built on it.
    pub(crate) fn next(self, stored: u64, now: u64) -> Result<Option<u64>, Fault> {
        let slack = u64::try_from(SLACK.as_micros()).unwrap_or(u64::MAX);
        let next = match self {
            Self::Off => return Ok(None),
            Self::Propose(wanted) if stored <= wanted.max(now).saturating_add(LEAP) => {
                wanted.clamp(now.saturating_sub(slack), now + slack).max(stored + 1)
            }
            Self::AtLeast(token) => stored.max(token),
            Self::Propose(_) => ABOVE,
        };
        if next < ABOVE { Ok(Some(next)) } else { Err(Fault::new(IMPOSSIBLE)) }
    }

    /// Whether a node can have answered this by the rules; one that says something else must not be believed, for all
    /// later tokens would have to be larger.
    pub(crate) fn can_be(self, answer: u64) -> bool {
        match self {
            Self::Propose(wanted) => answer < ABOVE && answer <= wanted.saturating_add(LEAP),
            Self::Off | Self::AtLeast(_) => answer < ABOVE,
        }
    }
}

/// A server that votes. Commands of one node are carried out in the order in which they were given.
pub(crate) trait Node: Send + Sync {
    /// The node's URL, without its password.
    fn url(&self) -> &str;

    /// Whether changes of keys are told by push at this moment.
    fn pushes(&self) -> bool;

    /// Why it takes no first vote now, if it does not.
    fn quarantine(&self) -> Option<Fault> {
        None
    }

    fn acquire(&self, claim: &Claim, ask: Ask) -> Reply<Vote>;

    fn extend(&self, claim: &Claim, ask: Ask) -> Reply<Extension>;

    /// Deletes the claim's keys where they are still its own. `owed` is how long they live at most: a delete whose
    /// connection dies first is owed on the next one, and for so long if there is none and the client is gone.
    fn release(&self, claim: &Claim, owed: Duration) -> Reply<bool>;

    /// [`Node::release`] of keys that are probably gone: the node is not to remember them for our sake.
    fn release_late(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        self.release(claim, owed)
    }

    fn inspect(&self, key: &str) -> Reply<Option<Holder>>;

    /// Deletes the keys whoever has them; true if there was one.
    fn force_release(&self, keys: &[String]) -> Reply<bool>;

    /// Ends once everything that was asked before is answered; at once where nothing is on its way.
    fn settled(&self) -> Reply<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
