//! Certificates as people make them: self-signed, without a `subjectAltName`, of version 1, for other purposes. Which
//! of them are trusted, which errors end an acquire at once, and what the errors say.

use std::path::PathBuf;
use std::time::Instant;

use futures_util::future::join_all;
use redlock::{Error, ErrorKind, Redlock, TlsOptions};

use crate::support::{Certificates, Server, eventually, locks, millis, trusting};

/// Creates a self-signed certificate with the key of the server. `name` is its file without the extension.
fn self_signed(certificates: &Certificates, name: &str, more: &str) {
    certificates
        .openssl(&format!("req -x509 -key server.key -out {name}.crt -subj /CN=redis.test {more}"));
}

/// Creates a self-signed certificate of version 1, as `openssl x509 -req` does without extensions.
fn version_1(certificates: &Certificates, name: &str, more: &str) {
    certificates
        .openssl(&format!("x509 -req -in server.csr -signkey server.key -out {name}.crt {more}"));
    let text = certificates.openssl(&format!("x509 -in {name}.crt -noout -text"));
    assert!(text.contains("Version: 1"), "{text}");
}

/// Has the server present another certificate.
fn present(server: &Server, files: [PathBuf; 2]) {
    let [certificate, key] = files.map(|file| file.to_string_lossy().into_owned());
    let set = format!("CONFIG SET tls-cert-file {certificate} tls-key-file {key}");
    assert_eq!(server.ask(&set), "+OK");
}

/// The error of a single attempt.
async fn refused_once(url: &str, tls: TlsOptions) -> Error {
    let redlock = Redlock::builder([url]).tls(tls).build().unwrap();
    redlock.lock("job").try_acquire().await.expect_err("the certificate is not trusted")
}

/// The error of an acquire that may wait forever.
async fn refused(port: u16, tls: TlsOptions) -> Error {
    let redlock =
        Redlock::builder([format!("rediss://127.0.0.1:{port}")]).tls(tls).build().unwrap();
    let acquire = redlock.lock("job").acquire();
    let ended = tokio::time::timeout(millis(30_000), acquire).await.expect("it waits");
    ended.expect_err("the certificate is not trusted")
}

#[tokio::test]
async fn trusts_exactly_the_given_certificate() {
    let certificates = Certificates::new();
    self_signed(&certificates, "bare", "");
    self_signed(&certificates, "named", "-addext subjectAltName=DNS:other.test");
    self_signed(&certificates, "leaf", "-addext basicConstraints=critical,CA:FALSE");
    self_signed(&certificates, "usage", "-addext extendedKeyUsage=clientAuth");
    self_signed(&certificates, "signs", "-addext keyUsage=critical,keyCertSign");
    version_1(&certificates, "old", "-days 2");
    let issued = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile client.ext";
    certificates.openssl(&format!("x509 -req -in server.csr {issued} -out issued.crt"));
    for name in ["bare", "named", "leaf", "usage", "signs", "old", "issued"] {
        let (server, port) = certificates.server_as(name, "no");
        let own = certificates.path(&format!("{name}.crt"));
        for host in ["127.0.0.1", "localhost"] {
            let url = format!("rediss://{host}:{port}");
            let trusted = locks(url, trusting(&own)).await;
            trusted.unwrap_or_else(|error| panic!("{name} {host}: {error}"));
        }
        // Also as one of several, and with TLS 1.2, whose signatures another function checks.
        let both = [std::fs::read(certificates.path("ca.crt")), std::fs::read(&own)];
        let both = both.map(Result::unwrap).concat();
        drop(server);
        let mut options = certificates.options(name, "no", port);
        options.extend(["--tls-protocols".to_owned(), "TLSv1.2".to_owned()]);
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        let _server = Server::with(&options);
        let trusted = locks(format!("rediss://127.0.0.1:{port}"), TlsOptions::new().ca(both)).await;
        trusted.unwrap_or_else(|error| panic!("{name} with TLS 1.2: {error}"));
    }
}

#[tokio::test]
async fn similar_certificate_is_not_trusted() {
    let certificates = Certificates::new();
    // The same name and key, and another serial number.
    self_signed(&certificates, "first", "");
    self_signed(&certificates, "second", "");
    version_1(&certificates, "old", "-days 2 -set_serial 1");
    version_1(&certificates, "older", "-days 2 -set_serial 2");
    for (given, presented) in [("first", "second"), ("old", "older"), ("ca", "first")] {
        let (_server, port) = certificates.server_as(presented, "no");
        let tls = trusting(&certificates.path(&format!("{given}.crt")));
        let error = refused_once(&format!("rediss://127.0.0.1:{port}"), tls).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("tls_ca"), "{given}, {presented}: {error}");
    }
    // The certificate alone proves nothing. Its server must have its key.
    let (_server, port) = certificates.server("no");
    let url = format!("rediss://127.0.0.1:{port}");
    let error = refused_once(&url, trusting(&certificates.path("first.crt"))).await;
    assert!(error.to_string().contains("is not trusted"), "{error}");
}

/// Runs the two commands that the error names, and uses the certificate that they make.
#[tokio::test]
async fn refused_certificate_names_the_commands_that_make_one() {
    let certificates = Certificates::new();
    let issued = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2";
    certificates.openssl(&format!("{issued} -out first.crt"));
    let extensions = ["bare keyUsage=digitalSignature", "client extendedKeyUsage=clientAuth"];
    for extension in extensions {
        let (name, extension) = extension.split_once(' ').unwrap();
        std::fs::write(certificates.path("made.ext"), extension).unwrap();
        certificates.openssl(&format!("{issued} -extfile made.ext -out {name}.crt"));
    }
    self_signed(&certificates, "alone", "");
    for (certificate, why) in [
        ("first", "version 1"),
        ("bare", "no subjectAltName"),
        ("client", "extendedKeyUsage"),
        ("alone", "that of a CA"),
    ] {
        let (server, port) = certificates.server_as(certificate, "no");
        for (host, name) in [("127.0.0.1", "IP:127.0.0.1"), ("localhost", "DNS:localhost")] {
            let url = format!("rediss://{host}:{port}");
            let error = refused_once(&url, trusting(&certificates.path("ca.crt"))).await;
            let text = error.to_string();
            assert!(text.contains(why) && text.contains(name), "{certificate}: {text}");
            let commands: Vec<_> =
                text.split('`').filter(|part| part.starts_with("openssl ")).collect();
            assert_eq!(commands.len(), 2, "{text}");
            // In another folder, with the files of the CA.
            let folder = certificates.path("made");
            std::fs::create_dir_all(&folder).unwrap();
            for file in ["ca.crt", "ca.key"] {
                std::fs::copy(certificates.path(file), folder.join(file)).unwrap();
            }
            for command in commands {
                let words = command.split_whitespace().skip(1);
                let run =
                    std::process::Command::new("openssl").args(words).current_dir(&folder).output();
                let run = run.unwrap();
                assert!(
                    run.status.success(),
                    "{command}: {}",
                    String::from_utf8_lossy(&run.stderr)
                );
            }
            // Redis refuses a certificate without its key, so both are set at once.
            present(&server, [folder.join("redis.crt"), folder.join("redis.key")]);
            locks(url, trusting(&certificates.path("ca.crt"))).await.unwrap();
            let own = [format!("{certificate}.crt"), "server.key".to_owned()];
            present(&server, own.map(|file| certificates.path(&file)));
        }
    }
}

#[tokio::test]
async fn certificate_errors_and_alerts_end_an_acquire_at_once() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("no");
    let (_strict, strict) = certificates.server("yes");
    let path = |name: &str| certificates.path(name);
    let trusted = || trusting(&path("ca.crt"));
    self_signed(&certificates, "unknown", "");
    let cases = [
        (port, trusting(&path("other-ca.crt")), "is not trusted"),
        (port, trusted().server_name("other.test"), "another name"),
        (strict, trusted(), "requires a client certificate"),
        (
            strict,
            trusted().cert(path("unknown.crt")).key(path("server.key")),
            "does not accept the client certificate",
        ),
    ];
    let checks = cases.map(|(port, tls, words)| async move {
        let error = refused(port, tls).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
        // Otherwise it would have ended after that time.
        assert!(!error.to_string().contains("unavailable_after"), "{error}");
    });
    join_all(checks).await;
}

#[tokio::test]
async fn waits_for_a_certificate_to_be_replaced_that_has_expired() {
    let certificates = Certificates::new();
    let issued = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial";
    certificates.openssl(&format!("{issued} -days -1 -extfile server.ext -out old.crt"));
    // Tests the time of a certificate that is trusted itself.
    version_1(&certificates, "pinned", "-days -1");
    for (name, ca) in [("old", "ca.crt"), ("pinned", "pinned.crt")] {
        let (server, port) = certificates.server_as(name, "no");
        let trust = [ca, "ca.crt"].map(|ca| std::fs::read(certificates.path(ca)).unwrap()).concat();
        let tls = || TlsOptions::new().ca(trust.clone());
        let error = refused_once(&format!("rediss://127.0.0.1:{port}"), tls()).await;
        assert!(error.to_string().contains("has expired"), "{name}: {error}");
        let redlock = Redlock::builder([format!("rediss://127.0.0.1:{port}")]).tls(tls()).build();
        let redlock = redlock.unwrap();
        let waiting = tokio::spawn(redlock.lock("job").acquire());
        let connections = || {
            let count = server.info("stats", "total_connections_received");
            count.map_or(0, |count| count.parse::<u64>().unwrap())
        };
        let before = connections();
        // An error that no attempt can change would end it after a second.
        let begun = Instant::now();
        eventually("several attempts", || {
            begun.elapsed() > millis(1300) && connections() >= before + 4
        })
        .await;
        assert!(!waiting.is_finished(), "{name}: {:?}", waiting.await);
        present(&server, ["server.crt", "server.key"].map(|file| certificates.path(file)));
        waiting.await.unwrap().expect(name).release().await.unwrap();
    }
}
