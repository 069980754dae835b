//! Fencing tokens: in which key they are stored, and how a quorum of replies agrees on one.
//!
//! Each node computes its token by the rule in `node::fencing`, which `acquire.lua` and `extend.lua` implement on a
//! server. Any two quorums share a node, so the largest token of a quorum is larger than that of every earlier lease.

use super::vote_round::VoteRound;
use crate::clock::Instant;
use crate::error::{Error, Result};
use crate::lease::{ExtendRound, Validity};
use crate::node::{Fencing, Vote, hash_tag};
use crate::quorum::Collect;
use crate::text::shown;

/// Distinguishes a fence key from its lock's key. Operators type it to repair a token manually
/// (docs/concepts/fencing.md).
const SUFFIX: &str = ":fence";

/// Returns the key that stores the last fencing token of a lock key. It has the same hash slot, so that one script may
/// write both on a Cluster. <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
pub(crate) fn fence_key(key: &str) -> Result<String> {
    match hash_tag(key) {
        // Text after a hash tag does not change the slot of a key.
        Some(_) => Ok(format!("{key}{SUFFIX}")),
        // In additional braces, the hash tag would end at the key's own brace, and the slot would differ.
        None if key.contains('}') => Err(Error::invalid(format!(
            "the key {:?} cannot have a fencing token, because no other key can be placed in its hash slot. Use a \
             name without '}}', or one with a hash tag such as {{tag}}",
            shown(key)
        ))),
        None => Ok(format!("{{{key}}}{SUFFIX}")),
    }
}

/// Rejects a key that stores the fencing tokens of another lock.
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

/// The fencing tokens in the votes of a quorum.
enum Agreement {
    /// All tokens are equal, so the token is final after this round.
    ///
    /// This is the usual case: every node stores the same proposal, unless its clock differs too much or its last token
    /// is larger.
    Agreed(u64),
    /// The largest token. It is final once a quorum has stored it.
    Largest(u64),
}

/// Returns `None` if no vote has a token.
fn agreement(votes: &Collect<Vote>) -> Option<Agreement> {
    let fence = |vote: &Vote| if let Vote::Granted(fence) = vote { *fence } else { None };
    let fences = votes.answers.iter().flatten().flatten().filter_map(fence);
    let (least, largest) = (fences.clone().min()?, fences.max()?);
    Some(if least == largest { Agreement::Agreed(largest) } else { Agreement::Largest(largest) })
}

/// Returns the token of a round that a quorum granted, or `None` if no quorum has stored it by `until`.
///
/// If the tokens differ, an extend sends the largest one to all nodes. The quorum of a later lease shares a node with
/// this one and gets a larger token.
///
/// Dropping the future leaves no key, because dropping the round sends its deletes after this extend.
pub(super) async fn agree(round: &mut VoteRound, until: Instant) -> Option<u64> {
    let largest = match agreement(&round.votes)? {
        Agreement::Agreed(token) => return Some(token),
        Agreement::Largest(token) => token,
    };
    let (nodes, params) = (&round.nodes, round.params);
    // Only for the request of this extend. The validity of the lease counts from its first round, which began earlier.
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
