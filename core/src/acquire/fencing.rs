//! Fencing tokens: where they are kept, and when a quorum's answers agree on one.
//!
//! What one node stores and answers is decided in `node::fencing`, and on a server by `acquire.lua` and
//! `extend.lua` after the same rule. Here stands why a quorum's answers make one token that increases: any two
//! quorums share a node.

use super::vote_round::VoteRound;
use crate::clock::Instant;
use crate::error::{Error, Result};
use crate::lease::{ExtendRound, Validity};
use crate::node::{Fencing, Vote, hash_tag};
use crate::quorum::Collect;
use crate::text::shown;

/// Distinguishes a fence key from its lock's key. Operators type it to repair one by hand (docs/concepts/fencing.md).
const SUFFIX: &str = ":fence";

/// The key beside a lock key that keeps its last fencing token: in the same hash slot, so that one script may
/// write both on a Cluster. <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
pub(crate) fn fence_key(key: &str) -> Result<String> {
    match hash_tag(key) {
        // What stands behind a tag does not move a key to another slot.
        Some(_) => Ok(format!("{key}{SUFFIX}")),
        // In braces of ours, its tag would end at its own brace: another slot.
        None if key.contains('}') => Err(Error::invalid(format!(
            "the key {:?} cannot have a fencing token, because no other key can be placed in its hash slot. Use a \
             name without '}}', or one with a hash tag such as {{tag}}",
            shown(key)
        ))),
        None => Ok(format!("{{{key}}}{SUFFIX}")),
    }
}

/// A key that keeps the fencing tokens of another lock cannot be a lock.
pub(crate) fn check_lock_key(key: &str) -> Result<()> {
    match key.strip_suffix(SUFFIX) {
        // The fence key of a name without a hash tag is `{NAME}:fence`, so `NAME:fence` is not a fence key.
        Some(lock) if hash_tag(lock).is_some() => Err(Error::invalid(format!(
            "the key {:?} is reserved for the fencing tokens of another lock. A name with a hash tag cannot end in \
             {SUFFIX:?}",
            shown(key)
        ))),
        _ => Ok(()),
    }
}

/// What the votes of a quorum say.
enum Agreement {
    /// The token stands after this one round.
    ///
    /// The usual case: every node takes the same proposal, unless its own clock or its last token says
    /// otherwise.
    Agreed(u64),
    /// The largest answer; it stands once a quorum has stored it.
    Largest(u64),
}

/// `None` where no vote carries a token.
fn agreement(votes: &Collect<Vote>) -> Option<Agreement> {
    let fence = |vote: &Vote| if let Vote::Granted(fence) = vote { *fence } else { None };
    let fences = votes.answers.iter().flatten().flatten().filter_map(fence);
    let (least, largest) = (fences.clone().min()?, fences.max()?);
    Some(if least == largest { Agreement::Agreed(largest) } else { Agreement::Largest(largest) })
}

/// The token of a round that a quorum granted; `None` if no quorum stored it in time, by `until` at the latest.
///
/// Where the answers differ, an extend carries the largest to all: a later lease meets one of this quorum, and gets
/// more.
///
/// Dropped in between, it leaves nothing: the round's own drop sends its deletes behind this extend.
pub(super) async fn agree(round: &mut VoteRound, until: Instant) -> Option<u64> {
    let largest = match agreement(&round.votes)? {
        Agreement::Agreed(token) => return Some(token),
        Agreement::Largest(token) => token,
    };
    let (nodes, params) = (&round.nodes, round.params);
    // Only what the extend asks for: the lease itself counts from its first round, which began before.
    let validity = Validity::new(nodes.clock.now(), params.ttl, None);
    let fencing = Fencing::AtLeast(largest);
    let mut extend = ExtendRound::send(nodes, &round.claim, validity, params.timeout, fencing);
    let confirmed = extend.is_confirmed(&*nodes.clock, until).await;
    confirmed.then_some(largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::slot;

    #[test]
    fn lock_key_cannot_be_a_fence_key() {
        for key in ["lock:job", "x{t}", "a{b", "{x}", "lock:a:fence", "{}:fence", "{}x"] {
            check_lock_key(key).unwrap();
            if let Ok(fence) = fence_key(key) {
                check_lock_key(&fence).unwrap_err();
            }
        }
    }

    #[test]
    fn fence_key_is_in_the_slot_of_its_lock() {
        for key in ["lock:job", "x{t}y", "a{b", "{x}", "{{x}", "lock:{a}:{b}"] {
            assert_eq!(slot(&fence_key(key).unwrap()), slot(key), "{key}");
        }
    }
}
