//! `rediss://` and `unix://` against real servers: which certificates are trusted, and which are not.

use std::path::Path;

use futures_util::future::{join, join_all};
use redlock::rustls::pki_types::{CertificateDer, pem::PemObject};
use redlock::rustls::{self, ClientConfig, RootCertStore};
use redlock::{ErrorKind, Redlock, TlsOptions};

use crate::support::{
    Certificates, Mode, Proxy, Server, free_port, late_failure, locks, millis, trusting,
};

#[tokio::test]
async fn checks_trust_name_and_client_certificate() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("no");
    let (_strict, strict_port) = certificates.server("yes");
    let (ca, other) = (certificates.path("ca.crt"), certificates.path("other-ca.crt"));
    let url = |port: u16| format!("rediss://127.0.0.1:{port}");

    locks(url(port), trusting(&ca)).await.unwrap();
    let named = trusting(&ca).server_name("redis.test");
    locks(url(port), named).await.unwrap();
    let shown =
        trusting(&ca).cert(certificates.path("client.crt")).key(certificates.path("client.key"));
    locks(url(strict_port), shown).await.unwrap();

    let wrong_name = trusting(&ca).server_name("other.test");
    for (port, tls, word) in [
        (port, trusting(&other), "UnknownIssuer"),
        (port, wrong_name, "not valid for"),
        (
            strict_port,
            trusting(&ca),
            "the server requires a client certificate. Set tls_cert and tls_key",
        ),
    ] {
        let error = locks(url(port), tls).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// The first byte of a TLS handshake is no line end, so a server without TLS waits for the rest of the command.
#[tokio::test]
async fn names_ports_with_and_without_tls_whatever_ends_the_call() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("no");
    let (plain, ca) = (Server::start(), certificates.path("ca.crt"));
    let (no_tls, short) = ("does not use TLS on this port", "check whether this is a TLS port");
    let write_tls = "rite rediss:// instead of redis://";
    let to_plain = format!("rediss://127.0.0.1:{}", plain.port);
    let to_tls = format!("redis://127.0.0.1:{port}");
    let client = |url: &str| {
        let client = Redlock::builder([url]).connect_timeout(millis(5000));
        if url.starts_with("rediss") { client.tls(trusting(&ca)) } else { client }
    };
    let is_early = |text: &str| text.contains("still connecting") && !text.contains(short);
    let check = async |url: &str, words: [&str; 2]| {
        let has = |error: redlock::Error, words: &[&str]| {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let text = error.to_string();
            assert!(words.iter().any(|words| text.contains(words)), "{text}");
        };
        // Neither `wait` nor the timeout of a vote leaves time for the attempt.
        let lock = client(url).build().unwrap().lock("job").wait(millis(60));
        has(late_failure(&lock, is_early).await, &words);
        let quick = client(url).node_timeout(millis(20)).build().unwrap();
        let lock = quick.lock("job").wait(millis(60));
        has(late_failure(&lock, is_early).await, &words);
        has(client(url).build().unwrap().lock("job").try_acquire().await.unwrap_err(), &words[..1]);
        has(quick.lock("job").wait(millis(2500)).acquire().await.unwrap_err(), &words[..1]);
        // A server without TLS is certain, so that no further attempt can change it. One with TLS may have had another
        // reason to end the connection.
        if url == to_plain {
            let error = quick.lock("job").acquire().await.unwrap_err();
            assert!(!error.to_string().contains("unavailable_after"), "{error}");
            has(error, &words[..1]);
        }
    };
    // The random bytes of each handshake decide how the server without TLS reacts.
    let plain_ports = (0..6).map(|_| check(&to_plain, [no_tls, short]));
    join(join_all(plain_ports), check(&to_tls, [write_tls, write_tls])).await;
}

#[tokio::test]
async fn slow_tls_server_is_not_taken_for_one_without_tls() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("no");
    let proxy = Proxy::to(port);
    proxy.set(Mode::LongDelay);
    let url = proxy.url().replace("redis://", "rediss://");
    let redlock = Redlock::builder([url]).tls(trusting(&certificates.path("ca.crt")));
    let redlock = redlock.node_timeout(millis(5000)).build().unwrap();
    redlock.lock("job").wait(millis(20_000)).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn names_a_server_that_replies_in_plain_text() {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    crate::support::spawn_helper(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"-ERR unknown command\r\n");
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        }
    });
    let tls = TlsOptions::new().verify(false);
    let error = locks(format!("rediss://127.0.0.1:{port}"), tls).await.unwrap_err();
    assert!(error.to_string().contains("the server does not use TLS on this port"), "{error}");
}

#[tokio::test]
async fn one_server_is_not_called_a_quorum() {
    let url = |port: u16| format!("redis://127.0.0.1:{port}");
    let one = Redlock::builder([url(free_port())]).build().unwrap();
    let error = one.lock("job").try_acquire().await.unwrap_err().to_string();
    assert!(error.starts_with("lock:job: not available. The node failed; redis://127."), "{error}");
    let three = Redlock::builder([url(free_port()), url(free_port()), url(free_port())]);
    let error = three.build().unwrap().lock("job").try_acquire().await.unwrap_err().to_string();
    assert!(
        error.starts_with("lock:job: no quorum. ") && error.contains(" of 3 nodes failed; "),
        "{error}"
    );
}

/// A configuration made by the program, which trusts the certificates of this file.
fn configured(certificates: &Certificates, ca: &str) -> ClientConfig {
    let mut trust = RootCertStore::empty();
    for found in CertificateDer::pem_file_iter(certificates.path(ca)).unwrap() {
        trust.add(found.unwrap()).unwrap();
    }
    configuration(trust)
}

fn configuration(trust: RootCertStore) -> ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    config.with_root_certificates(trust).with_no_client_auth()
}

fn config_without_trust() -> ClientConfig {
    configuration(RootCertStore::empty())
}

#[tokio::test]
async fn accepts_certificates_and_configurations_in_memory() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("no");
    let (_strict, strict_port) = certificates.server("yes");
    let url = |port: u16| format!("rediss://127.0.0.1:{port}");
    let read = |name: &str| std::fs::read(certificates.path(name)).unwrap();

    let trusting = TlsOptions::new().ca(read("ca.crt"));
    locks(url(port), trusting.clone()).await.unwrap();
    let shown = trusting.clone().cert(read("client.crt")).key(read("client.key"));
    assert!(!format!("{shown:?}").contains("BEGIN"), "{shown:?}");
    locks(url(strict_port), shown).await.unwrap();
    let named =
        TlsOptions::new().config(configured(&certificates, "ca.crt")).server_name("redis.test");
    locks(url(port), named).await.unwrap();

    for tls in [
        TlsOptions::new().ca(read("other-ca.crt")),
        TlsOptions::new().config(configured(&certificates, "other-ca.crt")),
        TlsOptions::new().config(configured(&certificates, "ca.crt")).server_name("other.test"),
    ] {
        let error = locks(url(port), tls).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert!(locks(url(strict_port), trusting).await.is_err());
}

#[tokio::test]
async fn reads_certificate_files_with_a_byte_order_mark() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("yes");
    let marked = |name: &str| {
        let text =
            [b"\xef\xbb\xbf".to_vec(), std::fs::read(certificates.path(name)).unwrap()].concat();
        std::fs::write(certificates.path("marked"), &text).unwrap();
        text
    };
    let shown = |tls: TlsOptions| tls.cert(marked("client.crt")).key(marked("client.key"));
    let bytes = shown(TlsOptions::new().ca(marked("ca.crt")));
    locks(format!("rediss://127.0.0.1:{port}"), bytes).await.unwrap();
    let file = shown(trusting(&certificates.path("ca.crt")));
    marked("ca.crt");
    let file = file.ca(certificates.path("marked"));
    locks(format!("rediss://127.0.0.1:{port}"), file).await.unwrap();
}

#[test]
fn separate_tls_configurations_are_not_equal() {
    let (one, other) = (
        TlsOptions::new().config(config_without_trust()),
        TlsOptions::new().config(config_without_trust()),
    );
    assert!(one == one.clone() && one != other && one != TlsOptions::new());
}

#[tokio::test]
async fn checks_tls_options_before_sending() {
    let certificates = Certificates::new();
    let url = || "rediss://127.0.0.1:1".to_owned();
    let (cert, key) = (certificates.path("client.crt"), certificates.path("client.key"));
    certificates.openssl(
        "pkcs8 -topk8 -v2 aes-256-cbc -passout pass:s3cret -in client.key -out locked.key",
    );
    certificates
        .openssl("rsa -traditional -aes128 -passout pass:s3cret -in client.key -out old.key");
    let wide: Vec<u8> = "\u{feff}-----BEGIN".encode_utf16().flat_map(u16::to_le_bytes).collect();
    certificates.openssl("x509 -req -in client.csr -signkey client.key -days 2 -out version-1.crt");
    let trusted = || trusting(&certificates.path("ca.crt"));
    let read = |name: &str| std::fs::read(certificates.path(name)).unwrap();
    for (tls, word) in [
        (trusting(Path::new("nowhere.pem")), "nowhere.pem"),
        (trusting(&certificates.path("ca.key")), "no PEM certificate"),
        (trusted().cert(cert.clone()), "tls_key"),
        (trusted().key(key.clone()), "tls_cert"),
        (trusted().server_name("no name"), "not a name"),
        (TlsOptions::new().ca(b"/etc/ca.pem"), "Pass a path as text"),
        (TlsOptions::new().ca(read("ca.key")), "no PEM certificate"),
        (trusted().cert(cert.clone()).key(read("client.crt")), "no PEM private key"),
        (
            trusted().cert(cert.clone()).key(certificates.path("ca.key")),
            "not the key of the first certificate in tls_cert",
        ),
        (
            trusted().cert(certificates.path("version-1.crt")).key(key.clone()),
            "has version 1, but version 3 is required",
        ),
        (trusted().cert(cert.clone()).key(certificates.path("locked.key")), "encrypted"),
        (trusted().cert(cert.clone()).key(read("locked.key")), "encrypted"),
        (trusted().cert(cert.clone()).key(certificates.path("old.key")), "encrypted"),
        (TlsOptions::new().ca(wide), "UTF-16"),
        (trusted().config(config_without_trust()), "tls_config is set together with tls_ca"),
        (
            TlsOptions::new().config(config_without_trust()).verify(false),
            "tls_config is set together with tls_verify",
        ),
    ] {
        let error = locks(url(), tls).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn tls_mismatch_fails_in_time() {
    let certificates = Certificates::new();
    let (server, port) = certificates.server("no");
    let ca = certificates.path("ca.crt");
    for (url, tls) in [
        (format!("rediss://127.0.0.1:{}", server.port), trusting(&ca)),
        (format!("redis://127.0.0.1:{port}"), TlsOptions::default()),
    ] {
        let error = locks(url, tls).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test]
async fn refused_certificate_error_explains_why() {
    let certificates = Certificates::new();
    let signed = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial";
    std::fs::write(certificates.path("usage.ext"), "keyUsage=digitalSignature").unwrap();
    certificates.openssl(&format!("{signed} -days 2 -out first.crt"));
    certificates.openssl(&format!("{signed} -days 2 -extfile usage.ext -out bare.crt"));
    certificates.openssl(&format!("{signed} -days -1 -extfile server.ext -out old.crt"));
    let named = |name: &str| trusting(&certificates.path("ca.crt")).server_name(name);
    for (certificate, tls, words) in [
        ("first", named("redis.test"), ["version 1", "subjectAltName"]),
        ("bare", named("redis.test"), ["no subjectAltName", "common name (CN)"]),
        ("old", named("redis.test"), ["has expired", "clock"]),
        ("server", named("other.test"), ["another name", "tls_server_name"]),
        ("server", trusting(&certificates.path("other-ca.crt")), ["is not trusted", "tls_ca"]),
    ] {
        let (_server, port) = certificates.server_as(certificate, "no");
        let error = locks(format!("rediss://127.0.0.1:{port}"), tls).await.unwrap_err();
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{certificate}: {text}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unix_socket_can_be_a_node() {
    let folder = std::env::temp_dir().join(format!("redlock-unix-{}", free_port()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("redis.sock").to_string_lossy().into_owned();
    let server = Server::with(&["--unixsocket", &socket]);
    let redlock = Redlock::builder([format!("unix://{socket}")]).build().unwrap();
    let lease = redlock.lock("job").acquire().await.unwrap();
    assert_eq!(server.ask("GET lock:job"), lease.token());
    lease.release().await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// As in a slim container image. The variables apply to a process, so the test runs its own one.
#[test]
fn system_without_certificates_is_named_with_the_options() {
    const NOWHERE: &str = "/nonexistent/redlock";
    if std::env::var("SSL_CERT_FILE").is_ok_and(|file| file == NOWHERE) {
        let error = Redlock::builder(["rediss://127.0.0.1:1"]).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for word in [NOWHERE, "Set tls_ca", "ca-certificates", "SSL_CERT_FILE"] {
            assert!(error.to_string().contains(word), "{error}");
        }
        let unverified = TlsOptions::new().verify(false);
        Redlock::builder(["rediss://127.0.0.1:1"]).tls(unverified).build().unwrap();
        return;
    }
    let test = "tls::system_without_certificates_is_named_with_the_options";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child =
        child.args(["--exact", test]).envs([("SSL_CERT_FILE", NOWHERE), ("SSL_CERT_DIR", NOWHERE)]);
    let ended = child.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}

#[test]
fn debug_output_hides_a_key_in_place_of_a_path() {
    let tls = TlsOptions::new().ca("MIIs3cret+/abc==");
    let tls = tls.key("-----BEGIN PRIVATE KEY-----\nMIIs3cret");
    assert!(!format!("{tls:?}").contains("s3cret"), "{tls:?}");
}
