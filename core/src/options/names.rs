//! The names of a lock: their rules, how many it may have, and which of them may be mistakes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::node::MAX_KEYS;
use crate::options::lock::Unit;
use crate::text::shown;

/// The maximum length of a name in bytes. A server would accept half a gigabyte and keep it as long as the lock.
const MAX_NAME: usize = 64 * 1024;
/// One name, or several names that are held as one lease.
///
/// Accepts strings (`str`, `String`, `Box<str>`, `Arc<str>`, `Cow<str>`), references to them, and arrays, slices and
/// vectors of strings.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let (name, several) = (format!("cart:{}", 7), ["cart:7".to_owned(), "stock:9".to_owned()]);
/// assert_eq!(client.lock(&name).names(), ["cart:7"]);
/// assert_eq!(client.lock(&several).names(), ["cart:7", "stock:9"]);
/// assert_eq!(client.lock(vec!["cart:7", "stock:9"]).names(), several);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Names(pub(crate) Arc<[String]>);

/// Implements the conversion from types of one name.
macro_rules! one {
    ($($string:ty),*) => {$(
        impl From<$string> for Names {
            fn from(name: $string) -> Self {
                Self(Arc::new([name.into()]))
            }
        }
    )*};
}

one!(&str, String, &String, Box<str>, Cow<'_, str>);

/// Implements the conversion from references to one name, as iterators and maps return them.
macro_rules! one_borrowed {
    ($($string:ty),*) => {$(
        impl From<$string> for Names {
            fn from(name: $string) -> Self {
                Self(Arc::new([AsRef::<str>::as_ref(&name).to_owned()]))
            }
        }
    )*};
}

one_borrowed!(&&str, &&String, Arc<str>, &Arc<str>, &Box<str>, &Cow<'_, str>);

impl<S: Into<String>> From<Vec<S>> for Names {
    fn from(names: Vec<S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for Names {
    fn from(names: [S; N]) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl<S: AsRef<str>> From<&[S]> for Names {
    fn from(names: &[S]) -> Self {
        Self(names.iter().map(|name| name.as_ref().to_owned()).collect())
    }
}

impl<S: AsRef<str>> From<&Vec<S>> for Names {
    fn from(names: &Vec<S>) -> Self {
        names.as_slice().into()
    }
}

impl<S: AsRef<str>, const N: usize> From<&[S; N]> for Names {
    fn from(names: &[S; N]) -> Self {
        names.as_slice().into()
    }
}

/// Checks the number and the length of the names, and that they differ.
pub(crate) fn check_names(names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Err(Error::invalid("no name was given. A lock needs at least one"));
    }
    if names.len() > MAX_KEYS {
        let text = format!(
            "a lock can have at most {MAX_KEYS} names (got {}). Lock a common name instead",
            names.len()
        );
        return Err(Error::invalid(text));
    }
    let mut seen = HashSet::with_capacity(if names.len() > 1 { names.len() } else { 0 });
    for name in names {
        if name.is_empty() {
            return Err(Error::invalid("a name is empty. Every lock needs a name"));
        }
        if name.len() > MAX_NAME {
            let text = format!(
                "a name must have at most 65536 bytes (got {}). Use a hash of it as the name",
                name.len()
            );
            return Err(Error::invalid(text));
        }
        // The lock would wait for itself.
        if names.len() > 1 && !seen.insert(name) {
            return Err(Error::invalid(format!(
                "the name {:?} is given twice. List each name once",
                shown(name)
            )));
        }
    }
    Ok(())
}

/// The words that a missing value leaves in a name, in the languages with this unit of times.
fn missing_values(unit: Unit) -> &'static [&'static str] {
    match unit {
        Unit::Seconds => &["None"],
        Unit::Milliseconds => &["undefined", "null", "NaN", "[object Object]"],
        Unit::Duration => &[],
    }
}

/// Returns why a name may be a mistake. It contains a template that was not filled in, or one that was filled in with a
/// missing value. Then all callers share one lock. With `braces`, a hash tag that looks like a template counts too.
pub(crate) fn doubt(names: &[String], unit: Unit, braces: bool) -> Option<String> {
    names.iter().find_map(|name| {
        let word = missing_values(unit).iter().find(|word| has_word(name, word));
        let missing = word.map(|word| {
            format!("it contains {word}, as if a value was missing. All callers without a value share this lock")
        });
        missing.or_else(|| {
            let field = field(name, braces)?;
            let advice = match unit {
                Unit::Seconds => "Use an f-string. Only a decorator fills in a template",
                Unit::Milliseconds => "Use a template literal with backticks",
                Unit::Duration => "Use format!",
            };
            let field = shown(field);
            Some(format!("it contains {field} as text, so all callers share this lock. {advice}"))
        })
    })
}

/// Whether the name contains the word, with neither a letter nor a digit next to it.
fn has_word(name: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric();
    name.match_indices(word).any(|(at, _)| {
        let (before, after) = (&name[..at], &name[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// The first template field: an identifier in braces. Without `braces`, a dollar sign must precede it.
fn field(name: &str, braces: bool) -> Option<&str> {
    name.match_indices('{').find_map(|(at, _)| {
        let end = at + name[at..].find('}')?;
        let has_dollar = name[..at].ends_with('$');
        let identifier = &name[at + 1..end];
        let is_identifier = identifier
            .starts_with(|first: char| first.is_alphabetic() || first == '_')
            && identifier.chars().all(|letter| letter.is_alphanumeric() || "_.".contains(letter));
        let start = if has_dollar { at - 1 } else { at };
        (is_identifier && (has_dollar || braces)).then(|| &name[start..=end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_that_may_be_mistakes() {
        let doubt = |name: &str, unit| doubt(&[name.to_owned()], unit, true);
        for name in ["report:None", "None", "a:None:b"] {
            assert!(doubt(name, Unit::Seconds).unwrap().contains("it contains None"), "{name}");
        }
        for name in ["a:undefined", "null:b", "a/NaN", "cart:[object Object]"] {
            assert!(
                doubt(name, Unit::Milliseconds).unwrap().contains("a value was missing"),
                "{name}"
            );
        }
        for (name, field) in
            [("a:{user}", "{user}"), ("a:${order.id}", "${order.id}"), ("{_1}", "{_1}")]
        {
            for unit in [Unit::Seconds, Unit::Milliseconds, Unit::Duration] {
                let text = doubt(name, unit).unwrap();
                assert!(text.contains(&format!("it contains {field} as text")), "{text}");
            }
        }
        let names = ["NoneSuch", "a:{42}", "{}", "{a b}", "}{", "{", "nullable", "cart:7", "a{"];
        for (name, unit) in names.iter().flat_map(|name| {
            [Unit::Seconds, Unit::Milliseconds, Unit::Duration].map(|unit| (name, unit))
        }) {
            assert_eq!(doubt(name, unit), None, "{name}");
        }
        assert_eq!(super::doubt(&["{tag}:a".to_owned()], Unit::Seconds, false), None);
        assert!(super::doubt(&["${tag}:a".to_owned()], Unit::Seconds, false).is_some());
    }
}
