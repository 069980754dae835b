//! A semaphore: each permit is a key with its own quorum. A claim takes some of these keys, all or none.
//!
//! A counter on each node would not do: over three nodes, it lets three clients have two permits, because each client
//! needs a majority of the nodes only. Two majorities for one key share a node.
//!
//! A round claims permits that are probably free: not those that others had in the last round, nor, at first, those
//! of this client's leases. A wrong guess costs another round.
//!
//! The number of permits is not stored anywhere, so the largest limit in use applies.

use std::sync::Arc;

use super::{Preference, Share};
use crate::error::{Error, Result, seconds};
use crate::node::{Blocker, Claim, Form, MAX_KEYS, Places, Refused, Slots, permits_key};
use crate::text::spelled;

/// The keys of all permits, and how many of them each lease has.
#[derive(Debug)]
pub(crate) struct Semaphore {
    /// The key without the number of a permit, for messages.
    pub(crate) name: String,
    slots: Arc<[String]>,
    permits: usize,
}

impl Semaphore {
    /// Creates the semaphore of this key.
    pub(crate) fn new(key: &str, limit: u32, permits: u32) -> Result<Self> {
        if limit < 1 || limit as usize > MAX_KEYS {
            return Err(Error::invalid(format!("limit must be 1 to {MAX_KEYS} (got {limit})")));
        }
        if permits < 1 || permits > limit {
            let text = format!("permits must be 1 to the limit of {limit} (got {permits})");
            return Err(Error::invalid(text));
        }
        let common = permits_key(key)?;
        let slots = (0..limit).map(|number| format!("{common}{number}")).collect();
        Ok(Self { name: key.to_owned(), slots, permits: permits as usize })
    }

    pub(super) fn slots(&self) -> &[String] {
        &self.slots
    }

    pub(super) fn share(&self) -> Share {
        // Neither exceeds `MAX_KEYS`.
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Share { own: number(self.permits), whole: number(self.slots.len()) }
    }

    pub(super) fn claim(&self, preference: &Preference, label: Option<&str>) -> Claim {
        let limit = self.slots.len();
        let Preference { busy, closed, first } = preference;
        let first = first % limit;
        let mut order: Vec<usize> = (first..limit).chain(0..first).collect();
        // Stable. A quorum can grant a place that others have on few nodes, and a closed one may be free by now.
        order.sort_by_key(|at| (closed.has(*at), busy.has(*at)));
        let mut chosen = order;
        chosen.truncate(self.permits);
        chosen.sort_unstable();
        let keys = chosen.iter().map(|at| self.slots[*at].clone()).collect();
        let slots = Slots { all: Arc::clone(&self.slots), chosen };
        Claim { form: Form::Slots(Arc::new(slots)), ..Claim::new(keys, Arc::default(), label) }
    }

    fn free(&self, taken: &Places) -> usize {
        (0..self.slots.len()).filter(|at| !taken.has(*at)).count()
    }

    pub(super) fn has_open(&self, taken: &Places) -> bool {
        self.free(taken) >= self.permits
    }

    pub(super) fn describe(&self, refused: &Refused, holder: &str) -> String {
        let (limit, permits, free) = (self.slots.len(), self.permits, self.free(&refused.taken));
        let why = match free {
            0 if limit == 1 => "its permit is taken".to_owned(),
            0 => format!("all {limit} permits are taken"),
            1 => format!("only 1 of {limit} permits is free, and {permits} are needed"),
            _ => format!("only {free} of {limit} permits are free, and {permits} are needed"),
        };
        let of = |one: &str| match holder {
            "" => one.to_owned(),
            _ => format!("{one}, held{holder},"),
        };
        let end = match refused.left.map(seconds) {
            Some(left) if refused.by == Blocker::Kept => {
                format!("and the first stays for {left} or less because of {}", spelled("min_hold"))
            }
            None => "and no key has a TTL".to_owned(),
            Some(left) if permits == 1 => {
                format!("and {} expires in {left} or sooner unless renewed", of("the first"))
            }
            Some(left) if holder.is_empty() => {
                format!("and enough expire in {left} or sooner unless renewed")
            }
            Some(left) => {
                let last = of("and the last of enough");
                format!("{last} expires in {left} or sooner unless renewed")
            }
        };
        format!("{why}, {end}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn semaphore(limit: u32, permits: u32) -> Semaphore {
        Semaphore::new("lock:pool", limit, permits).unwrap()
    }

    fn chosen(claim: &Claim) -> &[usize] {
        let Form::Slots(slots) = &claim.form else { panic!("no slots") };
        assert_eq!(slots.chosen.len(), claim.keys.len());
        &slots.chosen
    }

    #[test]
    fn claims_open_permits_first() {
        let pool = semaphore(5, 2);
        let claim = |busy: &[usize], closed: &[usize], first| {
            let [busy, closed] = [busy, closed].map(|places| places.iter().copied().collect());
            chosen(&pool.claim(&Preference { busy, closed, first }, None)).to_vec()
        };
        for first in 0..10 {
            let mut two = [first % 5, (first + 1) % 5];
            two.sort_unstable();
            assert_eq!(claim(&[], &[], first), two);
            assert_eq!(claim(&[0, 1, 4], &[], first), [2, 3]);
            // Others have 4 on one node only, and the rest on most nodes.
            assert_eq!(claim(&[0, 1, 2, 4], &[0, 1, 2], first), [3, 4]);
            let with_closed = claim(&[0, 1, 2, 4], &[0, 1, 2, 4], first);
            assert!(with_closed.len() == 2 && with_closed.contains(&3), "{with_closed:?}");
        }
    }

    #[test]
    fn describes_what_is_missing() {
        let refused = |taken: &[usize], left: Option<u64>| Refused {
            left: left.map(Duration::from_millis),
            taken: taken.iter().copied().collect(),
            ..Refused::default()
        };
        for (limit, permits, taken, left, text) in [
            (
                2,
                1,
                &[0, 1][..],
                Some(3200),
                "all 2 permits are taken, and the first expires in 3.200 s or sooner unless renewed",
            ),
            (
                1,
                1,
                &[0],
                Some(1000),
                "its permit is taken, and the first expires in 1.000 s or sooner unless renewed",
            ),
            (
                5,
                2,
                &[0, 1, 2, 3],
                Some(500),
                "only 1 of 5 permits is free, and 2 are needed, and enough expire in 0.500 s or sooner unless renewed",
            ),
            (
                5,
                4,
                &[0, 1],
                None,
                "only 3 of 5 permits are free, and 4 are needed, and no key has a TTL",
            ),
        ] {
            assert_eq!(semaphore(limit, permits).describe(&refused(taken, left), ""), text);
        }
        for (permits, text) in [
            (1, "and the first, held by web-3, expires in 3.200 s or sooner unless renewed"),
            (
                2,
                "and the last of enough, held by web-3, expires in 3.200 s or sooner unless renewed",
            ),
        ] {
            let described =
                semaphore(2, permits).describe(&refused(&[0, 1], Some(3200)), " by web-3");
            assert_eq!(described, format!("all 2 permits are taken, {text}"));
        }
    }

    #[test]
    fn limit_and_permits_are_checked() {
        let error =
            |limit, permits| Semaphore::new("lock:pool", limit, permits).unwrap_err().to_string();
        for limit in [0, 1001, u32::MAX] {
            assert!(error(limit, 1).contains(&format!("limit must be 1 to 1000 (got {limit})")));
        }
        for permits in [0, 6] {
            let text = error(5, permits);
            assert!(
                text.contains(&format!("permits must be 1 to the limit of 5 (got {permits})")),
                "{text}"
            );
        }
        assert!(
            Semaphore::new("a}b", 5, 1).unwrap_err().to_string().contains("cannot have permits")
        );
    }
}
