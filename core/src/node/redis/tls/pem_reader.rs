//! Reads certificates and private keys from PEM. Their content is never shown.

use std::borrow::Cow;
use std::fs;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::pem::{Held, Pem};
use crate::error::Result;

/// The UTF-8 byte-order mark. It must be removed, or the first PEM block is skipped silently.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// The byte-order marks of UTF-16.
const WIDE: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];
/// The markers of an encrypted key, in its first or second line.
const ENCRYPTED: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];

/// Returns all certificates of a file in order. A file without any is an error, because it would trust no server.
pub(super) fn certificates(option: &str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>> {
    let none = || pem.unreadable(option, "it contains no PEM certificate");
    let read = text(option, pem)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(none)
}

/// Returns the first private key.
pub(super) fn private_key(option: &str, pem: &Pem) -> Result<PrivateKeyDer<'static>> {
    let read = text(option, pem)?;
    PrivateKeyDer::from_pem_slice(&read).map_err(|_| {
        let has = |words: &&[u8]| read.windows(words.len()).any(|part| part == *words);
        let why = if ENCRYPTED.iter().any(has) {
            "the private key in it is encrypted, and passphrases are not supported. Decrypt it (openssl pkey) and \
             restrict access to the file"
        } else {
            "it contains no PEM private key"
        };
        pem.unreadable(option, why)
    })
}

/// Returns the content without a byte-order mark.
fn text<'a>(option: &str, pem: &'a Pem) -> Result<Cow<'a, [u8]>> {
    let read = match pem.held() {
        Held::File(path) => fs::read(path)
            .map(Cow::from)
            .map_err(|error| pem.unreadable(option, &error.to_string()))?,
        Held::Bytes(bytes) => Cow::from(bytes),
    };
    if WIDE.iter().any(|mark| read.starts_with(mark)) {
        return Err(pem.unreadable(option, "it is in UTF-16. Save it as UTF-8"));
    }
    Ok(if read.starts_with(MARK) { Cow::from(read[MARK.len()..].to_vec()) } else { read })
}
