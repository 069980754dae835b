//! Explains why a TLS connection could not be opened, and whether another attempt can succeed.

use std::borrow::Cow;
use std::io;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

use crate::node::Fault;
use crate::text::with_spelled;

/// The options that the texts below name.
const OPTIONS: [&str; 4] = ["tls_ca", "tls_cert", "tls_key", "tls_server_name"];

/// The error of a server that does not use TLS.
pub(crate) const PLAIN: &str = "the server does not use TLS on this port. Use its TLS port, or a URL without TLS. \
                               sentinel_tls says whether sentinels use it, if their servers differ";

/// Returns the explained error of a TLS connection. `name` is the one that the server's certificate must have.
///
/// Neither a certificate nor what the server accepts changes between two attempts. Only the time does.
pub(crate) fn fault(before: &str, error: &io::Error, name: Option<&ServerName<'_>>) -> Fault {
    // The outer error only reports that the handshake failed.
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let (why, is_refusal) = match refused {
        Some(rustls::Error::InvalidCertificate(error)) => {
            (explained_certificate(error, name), !is_about_time(error))
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            (explained_alert(*alert).into(), is_lasting(*alert))
        }
        Some(rustls::Error::InvalidMessage(_)) => (PLAIN.into(), true),
        Some(rustls::Error::PeerIncompatible(_)) => ("".into(), true),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            let closed = "the server closed the connection during the handshake. Check that this is its TLS port";
            (closed.into(), false)
        }
        _ => ("".into(), false),
    };
    let why = with_spelled(&why, &OPTIONS);
    // The error may contain the names in the server's certificate.
    let fault = if why.is_empty() {
        Fault::new(format!("{before}TLS: ")).saying(&error.to_string(), "")
    } else {
        Fault::new(format!("{before}TLS: {why} (")).saying(&error.to_string(), ")")
    };
    let fault = fault.by(error);
    if is_refusal { fault.refused() } else { fault }
}

/// Whether the certificate is refused for now, but not at another time.
fn is_about_time(error: &CertificateError) -> bool {
    use CertificateError as Bad;
    matches!(
        error,
        Bad::Expired
            | Bad::ExpiredContext { .. }
            | Bad::NotValidYet
            | Bad::NotValidYetContext { .. }
    )
}

/// Whether the server sends this alert at each attempt.
fn is_lasting(alert: AlertDescription) -> bool {
    use AlertDescription as Bad;
    // The certificate of the client may not be valid yet.
    !matches!(
        alert,
        Bad::CloseNotify | Bad::UserCanceled | Bad::InternalError | Bad::CertificateExpired
    )
}

/// Explains an alert of the server. Empty if the alert explains itself. With TLS 1.3 it may arrive after the handshake.
fn explained_alert(alert: AlertDescription) -> &'static str {
    use AlertDescription as Bad;
    match alert {
        Bad::CertificateRequired => {
            "the server requires a client certificate. Set tls_cert and tls_key"
        }
        Bad::HandshakeFailure => {
            "the server refused the handshake. It may require a client certificate (tls_cert and tls_key)"
        }
        Bad::BadCertificate
        | Bad::UnsupportedCertificate
        | Bad::CertificateRevoked
        | Bad::CertificateExpired
        | Bad::CertificateUnknown
        | Bad::UnknownCA => {
            "the server does not accept the client certificate. Check tls_cert and its issuer"
        }
        _ => "",
    }
}

/// Whether it is this kind of error, which rustls distinguishes from others only in the debug text.
fn is_other(error: &CertificateError, kind: &str) -> bool {
    matches!(error, CertificateError::Other(other) if format!("{other:?}").contains(kind))
}

/// Whether the certificate has version 1, as `openssl x509 -req` makes it without extensions.
pub(super) fn has_old_version(error: &CertificateError) -> bool {
    is_other(error, "UnsupportedCertVersion")
}

/// Explains common certificate errors and how to fix them. Empty if the error explains itself.
fn explained_certificate(
    error: &CertificateError,
    name: Option<&ServerName<'_>>,
) -> Cow<'static, str> {
    use CertificateError as Bad;
    let is = |kind| is_other(error, kind);
    let unfit = match error {
        _ if is_about_time(error) => {
            return "the server's certificate has expired or is not valid yet, or this machine's clock is wrong".into();
        }
        Bad::UnknownIssuer => {
            return "the issuer of the server's certificate is not trusted. Set tls_ca to its CA"
                .into();
        }
        // Checked before the other names, because it looks like a wrong name.
        Bad::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "has no subjectAltName, and a common name (CN) is not enough"
        }
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
            return "the server's certificate is for another name. Set tls_server_name to the expected name".into();
        }
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => {
            "is not for servers (extendedKeyUsage)"
        }
        _ if has_old_version(error) => {
            "has version 1, but version 3 with a subjectAltName is required"
        }
        _ if is("CaUsedAsEndEntity") => "is that of a CA, and not one of tls_ca",
        _ => return "".into(),
    };
    let name = name.map_or_else(|| "DNS:HOST".into(), alternative_name);
    format!(
        "the server's certificate {unfit}. Set tls_ca to this certificate itself, or make another one with the CA: \
         `openssl req -newkey rsa:2048 -nodes -keyout redis.key -out redis.csr -subj /CN=redis -addext \
         subjectAltName={name}`, then `openssl x509 -req -in redis.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days \
         365 -copy_extensions copy -out redis.crt`"
    )
    .into()
}

/// The name of a server as `openssl` writes it in a `subjectAltName`.
fn alternative_name(name: &ServerName<'_>) -> String {
    let kind = if matches!(name, ServerName::IpAddress(_)) { "IP" } else { "DNS" };
    format!("{kind}:{}", name.to_str())
}
