//! A PEM file by its path, or what is in one.
//!
//! What is in it, or in what should have been a path, is never shown: it may be a key.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::spelling::spelled;
use crate::text::shown;

/// A PEM file by its path, or what is in one as bytes: whatever is text or a path is a path, whatever is bytes is PEM.
///
/// ```
/// use redlock::{Pem, TlsOptions};
/// let file: Pem = "certs/ca.pem".into();
/// let bytes: Pem = std::env::var("REDIS_CA").unwrap_or_default().into_bytes().into();
/// let tls = TlsOptions::new().ca(file);
/// # let _ = (bytes, tls);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Pem(Held);

/// Which of the two.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Held {
    /// The path of a file, which is read when the client is made.
    File(PathBuf),
    /// What would be in it.
    Bytes(Vec<u8>),
}

impl Pem {
    /// Which of the two it is.
    pub(super) fn held(&self) -> &Held {
        &self.0
    }

    /// The path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Held::File(path) => Some(path),
            Held::Bytes(_) => None,
        }
    }

    /// The bytes, if it is no path. They may be a key: show them to nobody.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Held::File(_) => None,
            Held::Bytes(bytes) => Some(bytes),
        }
    }

    /// The error of the option that this is, and cannot be. A key pasted where its path belongs is the usual mistake.
    pub(super) fn unreadable(&self, option: &str, why: &str) -> Error {
        let option = spelled(option);
        Error::invalid(match &self.0 {
            Held::Bytes(_) => format!("{option} is given as bytes: {why}; a path is text"),
            Held::File(path) if path.to_string_lossy().contains("-----BEGIN") => {
                format!(
                    "{option} is the text of a PEM file: give the file's path instead, or the text as bytes"
                )
            }
            Held::File(path) => format!("{option} is {}: {why}", shown_path(path)),
        })
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Held::File(path) => f.write_str(&shown_path(path)),
            Held::Bytes(_) => f.write_str("bytes"),
        }
    }
}

/// Whatever does not look like the path of a file may be a secret that was put into the wrong place.
fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let ending = path.extension().is_some_and(|ending| ending.len() <= 4);
    let named = ending && text.len() <= 200 && !text.contains(char::is_control);
    if named || path.exists() { shown(&text) } else { "no file".to_owned() }
}

/// Text and paths are where it is.
macro_rules! paths {
    ($($from:ty),*) => {
        $(impl From<$from> for Pem {
            fn from(path: $from) -> Self {
                Self(Held::File(path.into()))
            }
        })*
    };
}

paths!(PathBuf, &PathBuf, &Path, String, &String, &str);

/// Bytes are what it is.
macro_rules! bytes {
    ($($from:ty),*) => {
        $(impl From<$from> for Pem {
            fn from(bytes: $from) -> Self {
                Self(Held::Bytes(bytes.into()))
            }
        })*
    };
}

bytes!(Vec<u8>, &[u8]);

// As `include_bytes!` gives it.
impl<const N: usize> From<&[u8; N]> for Pem {
    fn from(bytes: &[u8; N]) -> Self {
        Self(Held::Bytes(bytes.to_vec()))
    }
}
