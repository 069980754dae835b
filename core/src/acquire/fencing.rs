//! Fencing tokens: where they are kept, and when a quorum's answers agree on one.

use super::vote_round::VoteRound;
use crate::clock::Instant;
use crate::error::{Error, Result};
use crate::lease::{ExtendRound, Validity};
use crate::node::{Fencing, Vote};
use crate::quorum::Collect;
use crate::text::shown;

const SUFFIX: &str = ":fence";

/// The key beside a lock key that keeps its last fencing token: in the same hash slot, so that one script may
/// write both on a Cluster. <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
pub(crate) fn fence_key(key: &str) -> Result<String> {
    match tag(key) {
        Some(_) => Ok(format!("{key}{SUFFIX}")),
        None if key.contains('}') => Err(Error::invalid(format!(
            "the key {:?} cannot have a fencing token: no other key can be put into its hash slot. \
             Use a name without '}}', or with a hash tag: {{tag}}",
            shown(key)
        ))),
        None => Ok(format!("{{{key}}}{SUFFIX}")),
    }
}

/// What decides the key's hash slot, where that is not the whole key.
fn tag(key: &str) -> Option<&str> {
    let (tag, _) = key.split_once('{')?.1.split_once('}')?;
    Some(tag).filter(|tag| !tag.is_empty())
}

/// A key that keeps the fencing tokens of another lock cannot be a lock.
pub(crate) fn check_lock_key(key: &str) -> Result<()> {
    match key.strip_suffix(SUFFIX) {
        Some(lock) if tag(lock).is_some() => Err(Error::invalid(format!(
            "the key {:?} is where the fencing tokens of another lock are kept: \
             a name with a hash tag cannot end in {SUFFIX:?}",
            shown(key)
        ))),
        _ => Ok(()),
    }
}

/// What the votes of a quorum say.
enum Agreement {
    /// The token stands after this one round.
    Agreed(u64),
    /// The largest answer; it stands once a quorum has stored it.
    Largest(u64),
}

fn agreement(votes: &Collect<Vote>) -> Option<Agreement> {
    let fence = |vote: &Vote| if let Vote::Granted(fence) = vote { *fence } else { None };
    let fences = votes.answers.iter().flatten().flatten().filter_map(fence);
    let (least, largest) = (fences.clone().min()?, fences.max()?);
    Some(if least == largest { Agreement::Agreed(largest) } else { Agreement::Largest(largest) })
}

/// The token of a round that a quorum granted; `None` if no quorum stored it in time, by `until` at the latest.
///
/// Where the answers differ, an extend carries the largest to all: a later lease meets one of this quorum, and gets more.
pub(super) async fn agree(round: &mut VoteRound, until: Instant) -> Option<u64> {
    let largest = match agreement(&round.votes)? {
        Agreement::Agreed(token) => return Some(token),
        Agreement::Largest(token) => token,
    };
    let (nodes, params) = (&round.nodes, round.params);
    let validity = Validity::new(nodes.clock.now(), params.ttl, None);
    let fencing = Fencing::AtLeast(largest);
    let mut extend = ExtendRound::send(nodes, &round.claim, validity, params.timeout, fencing);
    let confirmed = extend.is_confirmed(&*nodes.clock, until).await;
    confirmed.then_some(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lock_has_the_key_of_anothers_fence() {
        for key in ["lock:job", "x{t}", "a{b", "{x}", "lock:a:fence", "{}:fence", "{}x"] {
            check_lock_key(key).unwrap();
            if let Ok(fence) = fence_key(key) {
                check_lock_key(&fence).unwrap_err();
            }
        }
    }
}
