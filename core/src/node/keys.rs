//! The keys that belong to a lock key: those of its fencing tokens, of the permits of a semaphore, and of the readers
//! and the turn of a read/write lock.
//!
//! They are in the hash slot of the lock key, so that one script may write them on a Cluster.
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>

use super::hash_tag;
use super::vote::Sides;
use crate::error::{Error, Result};
use crate::text::shown;

/// Distinguishes a fence key from its lock's key. Operators type it to repair a token manually (the page Fencing
/// tokens#repair of the documentation).
const FENCE: &str = ":fence";
const READERS_SUFFIX: &str = ":readers";
const TURN_SUFFIX: &str = ":turn";
/// Comes before the number of a permit.
const PERMIT: char = '#';

/// Returns the key that stores the last fencing token of a lock key.
pub(crate) fn fence_key(key: &str) -> Result<String> {
    Ok(related(key, "a fencing token")? + FENCE)
}

/// Returns the keys of a read/write lock.
pub(crate) fn sides(key: &str) -> Result<Sides> {
    let common = related(key, "readers")?;
    Ok(Sides { readers: format!("{common}{READERS_SUFFIX}"), turn: common + TURN_SUFFIX })
}

/// Returns the common part of the keys of a semaphore's permits.
pub(crate) fn permits_key(key: &str) -> Result<String> {
    let mut common = related(key, "permits")?;
    common.push(PERMIT);
    Ok(common)
}

/// Returns the common part of a permit's key, or `None` for other keys.
pub(crate) fn permits_key_of(permit: &str) -> Option<&str> {
    let common = permit.trim_end_matches(|digit: char| digit.is_ascii_digit());
    (common.len() < permit.len() && common.ends_with(PERMIT)).then_some(common)
}

/// Returns a text in the hash slot of the key, to which a suffix can be added. `what` is what the suffix is for.
fn related(key: &str, what: &str) -> Result<String> {
    match hash_tag(key) {
        // Text after a hash tag does not change the slot of a key.
        Some(_) => Ok(key.to_owned()),
        // In additional braces, the hash tag would end at the key's own brace, and the slot would differ.
        None if key.contains('}') => Err(Error::invalid(format!(
            "the key {:?} cannot have {what}, because no other key can be placed in its hash slot. Use a name without \
             '}}', or one with a hash tag such as {{tag}}",
            shown(key)
        ))),
        None => Ok(format!("{{{key}}}")),
    }
}

/// Rejects a key that belongs to another lock or semaphore.
pub(crate) fn check_lock_key(key: &str) -> Result<()> {
    // The related keys of a name without a hash tag begin with `{NAME}`, so `NAME:fence` is not one of them.
    let ends = [
        (FENCE, "the fencing tokens of another lock"),
        (READERS_SUFFIX, "the readers of another lock"),
        (TURN_SUFFIX, "the turn of another lock"),
    ];
    let related = ends.iter().find_map(|(end, what)| Some((key.strip_suffix(end)?, *what, *end)));
    let permit = permits_key_of(key);
    let permit = permit.map(|common| (common, "the permits of a semaphore", "# and a number"));
    let Some((of, what, end)) = related.or(permit) else { return Ok(()) };
    if hash_tag(of).is_none() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the key {:?} is reserved for {what}. A name with a hash tag cannot end in {end:?}",
        shown(key)
    )))
}

/// Returns the name of the lock that a key belongs to, and for the permit of a semaphore its number. `None` for a key
/// that is not one of a lock of clients with this prefix.
pub(crate) fn stored_name<'a>(key: &'a str, prefix: &str) -> Option<(&'a str, Option<u32>)> {
    if check_lock_key(key).is_ok() {
        return Some((key.strip_prefix(prefix)?, None));
    }
    let common = permits_key_of(key)?;
    let number = key[common.len()..].parse().ok()?;
    let related = &common[..common.len() - PERMIT.len_utf8()];
    // Only a name without a hash tag was put into braces.
    let inside = related.strip_prefix('{').and_then(|inside| inside.strip_suffix('}'));
    let inside = inside.filter(|inside| hash_tag(inside).is_none()).unwrap_or(related);
    Some((inside.strip_prefix(prefix)?, Some(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_lock_has_its_name() {
        for (prefix, name) in
            [("lock:", "job"), ("lock:", "{t}y"), ("lock:", "a#1"), ("", "job"), ("x{t}", "job")]
        {
            let key = format!("{prefix}{name}");
            assert_eq!(stored_name(&key, prefix), Some((name, None)), "{key}");
            let permit = permits_key(&key).unwrap() + "12";
            assert_eq!(stored_name(&permit, prefix), Some((name, Some(12))), "{permit}");
            assert_eq!(stored_name(&fence_key(&key).unwrap(), prefix), None, "{key}");
        }
        for other in ["job", "clock:job", "{clock:job}#1", "{job}#1", "{lock:job}:fence"] {
            assert_eq!(stored_name(other, "lock:"), None, "{other}");
        }
    }
    use crate::node::slot;

    #[test]
    fn lock_key_cannot_belong_to_another_lock() {
        for key in [
            "lock:job",
            "x{t}",
            "a{b",
            "{x}",
            "lock:a:fence",
            "{}:fence",
            "lock:a:readers",
            "{}:turn",
            "{}x",
            "a#1",
            "{}#1",
            "{x}#",
        ] {
            check_lock_key(key).unwrap();
            if let Ok(fence) = fence_key(key) {
                check_lock_key(&fence).unwrap_err();
                let Sides { readers, turn } = sides(key).unwrap();
                assert!([readers, turn].iter().all(|key| check_lock_key(key).is_err()));
                check_lock_key(&(permits_key(key).unwrap() + "12")).unwrap_err();
            }
        }
    }

    #[test]
    fn related_keys_are_in_the_slot_of_their_lock() {
        for key in ["lock:job", "x{t}y", "a{b", "{x}", "{{x}", "lock:{a}:{b}"] {
            assert_eq!(slot(&fence_key(key).unwrap()), slot(key), "{key}");
            let Sides { readers, turn } = sides(key).unwrap();
            assert_eq!([slot(&readers), slot(&turn)], [slot(key); 2], "{key}");
            assert_eq!(slot(&permits_key(key).unwrap()), slot(key), "{key}");
            assert_eq!(slot(&(permits_key(key).unwrap() + "7")), slot(key), "{key}");
        }
    }

    #[test]
    fn finds_the_semaphore_of_a_permit() {
        let common = |key: &str| permits_key_of(key).map(str::to_owned);
        assert_eq!(common("{lock:pool}#0").as_deref(), Some("{lock:pool}#"));
        assert_eq!(common("{a#1}#12").as_deref(), Some("{a#1}#"));
        for key in
            ["lock:pool", "", "#", "{lock:pool}#", "{lock:pool}#a", "{lock:pool}1", "#1b", "7"]
        {
            assert_eq!(common(key), None, "{key}");
        }
    }
}
