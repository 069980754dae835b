//! A read/write lock: any number of readers, or one writer.
//!
//! A writer has the lock key as the owner of a mutex has it, so `lock()` on the same name excludes readers and writers,
//! and other libraries do too. Readers share the key. Each is in a set beside it with its own end, so a reader that
//! dies is not kept alive by others. A waiting caller sets the turn of its side, so neither side waits forever for the
//! other. The scripts enforce the turn (`acquire_read.lua`, `acquire_write.lua`), and `node/memory/sides.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::Share;
use crate::error::{Result, seconds};
use crate::node::{Blocker, Claim, Form, Refused, Side, Sides, fence_key, sides};

/// The minimum time for which one side comes first. It is enough to receive a notification and to send a vote, also on
/// a busy machine.
const MIN_WINDOW: Duration = Duration::from_millis(100);
/// The maximum, so that a distant caller that has given up stops the others for this time only.
const MAX_WINDOW: Duration = Duration::from_secs(1);

/// One side of a read/write lock, with its keys.
#[derive(Debug)]
pub(crate) struct ReadWrite {
    pub(super) side: Side,
    sides: Arc<Sides>,
    /// The key that stores a writer's fencing tokens. Empty without fencing.
    fences: Arc<[String]>,
}

impl ReadWrite {
    /// Creates a side of the lock of this key.
    pub(crate) fn new(key: &str, side: Side, fencing: bool) -> Result<Self> {
        let fences = if fencing { [fence_key(key)?].into() } else { Arc::default() };
        Ok(Self { side, sides: Arc::new(sides(key)?), fences })
    }

    pub(super) fn share(&self) -> Share {
        match self.side {
            // All of the line except for what a single writer takes.
            Side::Read => Share { own: 1, whole: u32::MAX },
            Side::Write => Share::WHOLE,
        }
    }

    fn form(&self) -> Form {
        let sides = Arc::clone(&self.sides);
        match self.side {
            Side::Read => Form::Read(sides),
            Side::Write => Form::Write(sides),
        }
    }

    pub(super) fn claim(&self, identity: &Arc<[String]>, label: Option<&str>) -> Claim {
        let claim = Claim::new(Arc::clone(identity), Arc::clone(&self.fences), label);
        Claim { form: self.form(), ..claim }
    }

    /// The claim of the owner of this token, which exists already.
    pub(super) fn claim_of(&self, token: Arc<str>, identity: &Arc<[String]>) -> Claim {
        Claim { form: self.form(), ..Claim::of_owner(token, Arc::clone(identity)) }
    }

    /// How long this side comes first once the other side has left, if some round trips take `rounds`.
    pub(super) fn window(rounds: Option<Duration>) -> Duration {
        rounds.unwrap_or_default().clamp(MIN_WINDOW, MAX_WINDOW)
    }

    /// Describes a refusal. `None` if that of a mutex describes it.
    pub(super) fn describe(&self, refused: &Refused, holder: &str) -> Option<String> {
        let left = || seconds(refused.left.unwrap_or_default());
        match (self.side, refused.by) {
            (Side::Read, Blocker::Owner) => {
                let holder = holder.strip_prefix(" by ").map(|holder| format!(" ({holder})"));
                let holder = holder.unwrap_or_default();
                let end = match refused.left {
                    Some(_) => format!("expires in {} unless renewed", left()),
                    None => "its key has no TTL".to_owned(),
                };
                Some(format!("a writer{holder} holds it, and {end}"))
            }
            (Side::Read, Blocker::Turn) => Some(format!(
                "readers may hold it, but a waiting writer comes first for {}",
                left()
            )),
            (Side::Write, Blocker::Turn) => {
                Some(format!("waiting readers come first for {}", left()))
            }
            (_, Blocker::Kept | Blocker::Readers) | (Side::Write, Blocker::Owner) => None,
        }
    }
}
