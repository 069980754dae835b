//! The effect of the parameters of a node's URL on a real connection.

use std::time::Duration;

use redlock::{ErrorKind, Redlock, TlsOptions};

use crate::support::{Certificates, Server, Silent, locks, millis, trusting};

#[tokio::test]
async fn accepts_user_and_password_as_url_parameters() {
    let server = Server::with(&["--user", "me", "on", ">s3cret", "~*", "+@all"]);
    let url = |query: &str| format!("redis://127.0.0.1:{}{query}", server.port);
    for (query, granted) in [("?username=me&password=s3cret", true), ("?user=me&pass=wrong", false)]
    {
        let redlock = Redlock::builder([url(query)]).build().unwrap();
        let outcome = redlock.lock("job").wait(Duration::ZERO).acquire().await;
        assert_eq!(outcome.is_ok(), granted, "{outcome:?}");
        if granted {
            assert!(server.text("CLIENT LIST").contains(" user=me "));
        }
    }
}

#[tokio::test]
async fn url_timeouts_and_families_take_effect() {
    let silent = Silent::listen();
    for (query, words) in [
        ("?socket_connect_timeout=0.125", " within 0.125 s"),
        ("?socket_timeout=1.5&socket_connect_timeout=0.25", " within 0.250 s"),
        ("?family=6", "none of the URL's family"),
    ] {
        let url = format!("{}{query}", silent.url());
        let redlock = Redlock::builder([url]).build().unwrap();
        let lock = redlock.lock("job").wait(Duration::ZERO);
        let error = lock.acquire().await.unwrap_err();
        assert!(error.to_string().contains(words), "{query}: {error}");
    }
}

#[tokio::test]
async fn node_timeouts_of_all_urls_must_be_equal() {
    let silent = Silent::listen();
    let nodes = |first: &str, second: &str| {
        [format!("{}?{first}", silent.url()), format!("redis://127.0.0.1:1?{second}")]
    };
    let both = nodes("socket_timeout=0.5", "commandTimeout=500");
    let same = Redlock::builder(both.clone()).node_timeout(millis(500)).build();
    assert!(same.is_ok(), "{same:?}");
    for other in [
        Redlock::builder(both).node_timeout(millis(501)).build(),
        Redlock::builder(nodes("socket_timeout=0.5", "commandTimeout=501")).build(),
    ] {
        let error = other.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains("Timeout of node") || text.contains("timeout of node"), "{text}");
        assert!(text.contains("node_timeout"), "{text}");
    }
}

#[tokio::test]
async fn unverified_certificate_needs_the_option() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("no");
    let (_strict, strict_port) = certificates.server("yes");
    // The certificate has an authority that this machine does not trust, and another name.
    let unverified = |name: &str| TlsOptions::new().verify(false).server_name(name);
    let verified = trusting(&certificates.path("ca.crt")).verify(true).server_name("other.test");
    let url = format!("rediss://127.0.0.1:{port}");
    let error = locks(url.clone(), verified).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    locks(url.clone(), unverified("other.test")).await.unwrap();
    locks(format!("{url}?ssl_cert_reqs=none"), TlsOptions::default()).await.unwrap();
    // The client certificate is sent nevertheless.
    let strict = format!("rediss://127.0.0.1:{strict_port}?skip_verify=1");
    let shown = TlsOptions::new()
        .cert(certificates.path("client.crt"))
        .key(certificates.path("client.key"));
    assert!(locks(strict.clone(), TlsOptions::default()).await.is_err());
    locks(strict, shown).await.unwrap();
}

#[tokio::test]
async fn tls_files_in_a_url_equal_the_options() {
    let certificates = Certificates::new();
    let (_strict, port) = certificates.server("yes");
    let path = |name: &str| certificates.path(name).to_string_lossy().into_owned();
    let url = format!(
        "rediss://127.0.0.1:{port}?ssl_ca_certs={}&ssl_certfile={}&ssl_keyfile={}&ssl_cert_reqs=required",
        path("ca.crt"),
        path("client.crt"),
        path("client.key")
    );
    locks(url, TlsOptions::default()).await.unwrap();
    let other = format!("rediss://127.0.0.1:{port}?ssl_ca_certs={}", path("other-ca.crt"));
    assert!(locks(other, TlsOptions::default()).await.is_err());
}
