//! Which hash slot of a Redis Cluster a key is in: what is locked together must be in one.
//!
//! The rule is the cluster's own: <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.
//! Pure, and the same whether or not there is a cluster: fence keys are named by it everywhere.

use crc16::{State, XMODEM};

use crate::text::shown;

/// How many there are, in every cluster.
pub(crate) const SLOTS: u16 = 16_384;
/// A lock of many names names so many of their slots: enough to see what to do.
const SHOWN: usize = 8;

/// What decides the key's hash slot, where that is not the whole key.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (tag, _) = key.split_once('{')?.1.split_once('}')?;
    // `{}` is no tag: the whole key decides then.
    Some(tag).filter(|tag| !tag.is_empty())
}

/// The key's slot.
pub(crate) fn slot(key: &str) -> u16 {
    State::<XMODEM>::calculate(hash_tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// The rule that keys of several slots break, in words that show the way out; `None`: they are in one.
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
        "the names of one lock must be in one hash slot of a Redis Cluster, and these are not ({}): \
         write what they have in common in braces, as in {{order}}:1 and {{order}}:2",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_the_clusters_own() {
        // As `CLUSTER KEYSLOT` answers.
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
    fn several_slots_are_named_with_the_way_out() {
        let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(several_slots(&keys(&["lock:{a}:1", "lock:{a}:2"])), None);
        assert_eq!(several_slots(&keys(&["foo"])), None);
        let said = several_slots(&keys(&["foo", "lock:{user1000}"])).unwrap();
        for part in ["\"foo\" in 12182", "\"lock:{user1000}\" in 3443", "{order}:1"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
