//! The names of a lock: how callers can pass them, and their rules.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::text::shown;

/// The maximum length of a name in bytes. A server would accept half a gigabyte and keep it as long as the lock.
const MAX_NAME: usize = 64 * 1024;
/// The maximum number of names of one lease.
///
/// A server is busy with that many for about 5 ms and serves nothing else meanwhile. Reading the keys one by one would
/// take 200 ms or more. Before Redis 7.2, every read in a script remembers all of its keys.
const MAX_NAMES: usize = 1000;

/// One name, or several names that are held as one lease.
///
/// Accepts any kind of string, and any array, slice or vector of strings.
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
    if names.len() > MAX_NAMES {
        let text = format!(
            "a lock can have at most {MAX_NAMES} names (got {}). Lock a common name instead",
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
