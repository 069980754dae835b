//! The callers of one process that want one key, in order of arrival, and how much each takes from later ones.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::refusal::Refusal;
use crate::clock::Instant;
use crate::collections::Numbered;
use crate::node::Places;
use crate::primitive::Share;

/// How much a refused caller takes of a line.
pub(super) const WHOLE_LINE: u32 = u32::MAX;

/// How much a caller with its turn takes of the line of its key at this position: its share at first, later all if
/// other clients held the key, or if they held none. If the nodes did not refuse, one caller at a time tries again.
pub(super) fn part_at(taken: Option<&Places>, share: Share, at: usize) -> u32 {
    match taken {
        None => share.own,
        Some(taken) if taken.is_empty() || taken.has(at) => WHOLE_LINE,
        Some(_) => 0,
    }
}

/// The line of one key. Most lines have a single caller.
#[derive(Default)]
pub(super) struct Line {
    /// In order of arrival.
    pub(super) waiters: Numbered<()>,
    /// The first caller that takes a part of this line, and how much it takes from later callers.
    pub(super) holder: Option<(NonZeroU64, u32)>,
    /// `None` if no caller waits for its turn, which takes less memory.
    pub(super) crowd: Option<Box<Crowd>>,
    /// The result of the last conclusive round of its callers.
    pub(super) availability: Option<Availability>,
}

/// The result of the last conclusive round for a key. Callers of this process that want the same keys share it.
pub(super) struct Availability {
    pub(super) at: Instant,
    /// `None` if a quorum replied.
    pub(super) no_quorum: Option<NoQuorum>,
}

/// A period in which no quorum of nodes replied.
#[derive(Clone)]
pub(super) struct NoQuorum {
    pub(super) since: Instant,
    /// Why its last round had no quorum.
    pub(super) why: Arc<Refusal>,
}

/// The callers in a line of several.
#[derive(Default)]
pub(super) struct Crowd {
    /// The callers that take a part, and how much, except for the first of them. None of them waits for its turn.
    holders: BTreeMap<NonZeroU64, u32>,
    /// The callers that wait for their turn because earlier ones leave no room. Each is in one line only.
    pub(super) held_back: BTreeSet<NonZeroU64>,
}

impl Line {
    /// Whether earlier callers leave no room for this one.
    pub(super) fn holds_back(&self, id: NonZeroU64, share: Share) -> bool {
        let Some((first, part)) = self.holder.filter(|(first, _)| *first < id) else {
            return false;
        };
        let first_waiting = self.crowd.as_ref().and_then(|crowd| crowd.held_back.first());
        if share.own < share.whole && first_waiting.is_some_and(|waiting| *waiting < id) {
            // Otherwise callers of one permit would overtake one that waits for several, and readers a writer.
            return true;
        }
        let room = share.whole.saturating_sub(share.own);
        if part > room {
            return true;
        }
        let others = self.crowd.iter().flat_map(|crowd| crowd.holders.range(first..id));
        others.fold(part, |sum, (_, part)| sum.saturating_add(*part)) > room
    }

    /// Sets how much the caller takes from later ones.
    pub(super) fn set_part(&mut self, id: NonZeroU64, part: u32) {
        if let Some((first, of_first)) = &mut self.holder
            && *first == id
        {
            if part > 0 {
                *of_first = part;
            } else {
                self.holder = self.crowd.as_mut().and_then(|crowd| crowd.holders.pop_first());
            }
        } else if part == 0 {
            if let Some(crowd) = &mut self.crowd {
                crowd.holders.remove(&id);
            }
        } else if let Some(first) = self.holder {
            let (first, later) =
                if first.0 < id { (first, (id, part)) } else { ((id, part), first) };
            self.holder = Some(first);
            self.crowd.get_or_insert_default().holders.insert(later.0, later.1);
        } else {
            self.holder = Some((id, part));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::queue::{Queue, Ticket};
    use super::*;

    #[test]
    fn callers_of_the_same_keys_have_their_turn_in_order_of_arrival() {
        let queue = Arc::new(Queue::default());
        let join = |names: [&str; 2]| queue.join(&names.map(str::to_owned).into(), Share::WHOLE);
        // The second one waits in the line of `a`, and the third one in that of `b`.
        let mut tickets: Vec<_> = [["b", "a"], ["a", "b"], ["b", "a"]].map(join).into();
        while !tickets.is_empty() {
            let turns: Vec<_> = tickets.iter().map(Ticket::has_turn).collect();
            assert!(turns[0] && !turns[1..].contains(&true), "{turns:?}");
            tickets.remove(0);
        }
        assert_eq!(queue.callers(), 0);
    }

    /// Also after refusals, and when callers leave.
    #[test]
    fn callers_do_not_overtake_earlier_ones_of_the_same_keys() {
        let (queue, mut random) = (Arc::new(Queue::default()), fastrand::Rng::with_seed(7));
        let mut callers = Vec::new();
        for _ in 0..10_000 {
            while callers.len() < 12 {
                let mut keys = ["a", "b", "c"].map(str::to_owned);
                random.shuffle(&mut keys);
                let ticket = queue.join(&keys[..2].into(), Share::WHOLE);
                // The key that it does not want identifies the other two.
                callers.push((keys[2].clone(), ticket));
            }
            let mut seen = HashSet::new();
            for (keys, ticket) in &callers {
                assert!(seen.insert(keys) || !ticket.has_turn());
            }
            let turns: Vec<_> = (0..12).filter(|at| callers[*at].1.has_turn()).collect();
            let at = *random.choice(&turns).expect("the first one has its turn");
            match random.u8(..3) {
                0 => drop(callers.remove(at)),
                1 => drop(callers.remove(random.usize(..12))),
                _ => {
                    let taken: Places = [random.usize(..2)].into_iter().collect();
                    callers[at].1.refused(Some(&taken));
                    callers[at].1.requeue(Some(taken));
                }
            }
        }
    }
}
