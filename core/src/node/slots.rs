//! Computes the Redis Cluster hash slot of a key. The keys of one lock must be in the same slot.
//!
//! The rule is that of the cluster specification,
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>. It applies without a cluster too,
//! because the names of fence keys always depend on it.

use crc16::{State, XMODEM};

use crate::text::shown;

/// The number of slots in every cluster.
pub(crate) const SLOTS: u16 = 16_384;
/// The maximum number of names that an error shows.
const SHOWN: usize = 8;

/// Returns the part of the key that determines its slot, unless it is the whole key.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (tag, _) = key.split_once('{')?.1.split_once('}')?;
    // `{}` is not a tag: the whole key determines the slot.
    Some(tag).filter(|tag| !tag.is_empty())
}

pub(crate) fn slot(key: &str) -> u16 {
    State::<XMODEM>::calculate(hash_tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// Returns the error text for keys in several slots, including how to fix it. Returns `None` if all keys are in one
/// slot.
pub(crate) fn several_slots(keys: &[String]) -> Option<String> {
    let first = keys.first().map(|key| slot(key))?;
    if keys.iter().all(|key| slot(key) == first) {
        return None;
    }
    let mut named: Vec<String> =
        keys.iter().take(SHOWN).map(|key| format!("{:?} in {}", shown(key), slot(key))).collect();
    if keys.len() > SHOWN {
        named.push("...".to_owned());
    }
    Some(format!(
        "all names of a lock must be in one hash slot of a Redis Cluster (got {}). Put their common part in braces, \
         as in {{order}}:1 and {{order}}:2",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_equal_those_of_redis_cluster() {
        // As returned by `CLUSTER KEYSLOT`.
        for (key, is) in [
            ("", 0),
            ("foo", 12182),
            ("123456789", 12739),
            ("{user1000}.following", 3443),
            ("{user1000}.followers", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
        ] {
            assert_eq!(slot(key), is, "{key}");
        }
    }

    #[test]
    fn error_names_slots_and_hash_tags() {
        let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(several_slots(&keys(&["lock:{a}:1", "lock:{a}:2"])), None);
        assert_eq!(several_slots(&keys(&["foo"])), None);
        let said = several_slots(&keys(&["foo", "lock:{user1000}"])).unwrap();
        for part in ["\"foo\" in 12182", "\"lock:{user1000}\" in 3443", "{order}:1"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
