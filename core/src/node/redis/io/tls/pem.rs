//! Defines PEM input: the path of a file, or its content.
//!
//! The content of a file, or of a value that should have been a path, is never shown. It may be a key.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::text::{shown, spelled};

/// The path of a PEM file, or its content as bytes. Text and paths are paths, and bytes are PEM.
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

/// The two kinds of PEM input.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Held {
    /// The path of a file, which is read when the client is created.
    File(PathBuf),
    /// The content of a PEM file.
    Bytes(Vec<u8>),
}

impl Pem {
    /// Returns the input.
    pub(super) fn held(&self) -> &Held {
        &self.0
    }

    /// Returns the path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Held::File(path) => Some(path),
            Held::Bytes(_) => None,
        }
    }

    /// Returns the bytes, if it is not a path. They may contain a key, so do not show them.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Held::File(_) => None,
            Held::Bytes(bytes) => Some(bytes),
        }
    }

    /// The error for an unusable value of this option. The most common mistake is a pasted key instead of its path.
    pub(super) fn unreadable(&self, option: &str, why: &str) -> Error {
        let option = spelled(option);
        Error::invalid(match &self.0 {
            Held::Bytes(_) => {
                format!("cannot use the bytes of {option}: {why}. Pass a path as text")
            }
            Held::File(path) if path.to_string_lossy().contains("-----BEGIN") => {
                format!(
                    "{option} is the text of a PEM file. Pass the path of the file, or the text as bytes"
                )
            }
            Held::File(path) => format!("cannot use {option} ({}): {why}", shown_path(path)),
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

/// Formats the path for errors. A text that does not look like a path may be a misplaced secret and is not shown.
fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let ending = path.extension().is_some_and(|ending| ending.len() <= 4);
    let named = ending && text.len() <= 200 && !text.contains(char::is_control);
    if named || path.exists() { shown(&text) } else { "no file".to_owned() }
}

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

// The type of `include_bytes!`.
impl<const N: usize> From<&[u8; N]> for Pem {
    fn from(bytes: &[u8; N]) -> Self {
        Self(Held::Bytes(bytes.to_vec()))
    }
}
