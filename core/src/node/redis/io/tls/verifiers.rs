//! Decides whether a server's certificate is trusted, where rustls alone does not.

use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use tokio_rustls::rustls::{self, CertificateError, DigitallySignedStruct, SignatureScheme};

use super::certificate::{Certificate, key_parts};

type Verified<T> = std::result::Result<T, rustls::Error>;

/// Accepts the certificates of `tls_ca` themselves, and those that they issued.
///
/// A server that presents one of the former, byte for byte, is the one that the program named: only it has the private
/// key. Its name, version and purpose therefore do not matter, as for the clients of OpenSSL that trust it. It must be
/// valid now.
#[derive(Debug)]
pub(super) struct Trusted {
    /// Verifies the certificates that the given ones issued.
    pub(super) issued: Arc<WebPkiServerVerifier>,
    /// The given certificates.
    pub(super) given: Vec<CertificateDer<'static>>,
    /// The algorithms for signatures.
    pub(super) provider: Arc<CryptoProvider>,
}

impl Trusted {
    /// Returns the parts of one of the given certificates. `None` for any other one.
    fn given<'a>(&self, presented: &'a CertificateDer<'_>) -> Option<Certificate<'a>> {
        let is_given = self.given.iter().any(|given| **given == **presented);
        is_given.then(|| Certificate::parse(presented)).flatten()
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Verified<ServerCertVerified> {
        let Some(Certificate { validity: (from, until), .. }) = self.given(presented) else {
            return self.issued.verify_server_cert(presented, others, name, ocsp, now);
        };
        let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let (not_before, not_after) = (at(from), at(until));
        let error = if now < not_before {
            CertificateError::NotValidYetContext { time: now, not_before }
        } else if now > not_after {
            CertificateError::ExpiredContext { time: now, not_after }
        } else {
            return Ok(ServerCertVerified::assertion());
        };
        Err(error.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let Some(given) = self.given(presented) else {
            return verify_tls12_signature(message, presented, signed, algorithms);
        };
        // rustls verifies this only for certificates that it can read.
        let (kind, key) = key_parts(given.key).ok_or(CertificateError::BadEncoding)?;
        let mapped = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let mut fit = mapped.into_iter().flat_map(|(_, fit)| *fit);
        let is_valid = fit.any(|algorithm| {
            *algorithm.public_key_alg_id() == *kind
                && algorithm.verify_signature(key, message, signed.signature()).is_ok()
        });
        if is_valid {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let algorithms = &self.provider.signature_verification_algorithms;
        match self.given(presented) {
            Some(given) => {
                let key = SubjectPublicKeyInfoDer::from(given.key);
                verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
            }
            None => verify_tls13_signature(message, presented, signed, algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}

/// Accepts every certificate, if `tls_verify` is off.
///
/// The signatures of the handshake are still verified, so the peer owns the key of its certificate. The identity in the
/// certificate is not checked.
#[derive(Debug)]
pub(super) struct Unverified {
    /// The algorithms for signatures, which are still verified.
    pub(super) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Verified<ServerCertVerified> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
