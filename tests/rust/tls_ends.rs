//! TLS connections that end without `close_notify`, as when a proxy closes its socket.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use redlock::rustls::crypto::ring::default_provider;
use redlock::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use redlock::rustls::{ServerConfig, ServerConnection};
use redlock::{ErrorKind, Redlock};

use crate::support::{Certificates, Gateway, Server, Verdict, spawn_helper, trusting};

/// Speaks TLS with the client and plain TCP with the gateway. Closes its socket once the gateway has.
struct Front {
    port: u16,
}

impl Front {
    fn to(gateway: &Gateway, certificate: &Path, key: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, gateway) = (listener.local_addr().unwrap().port(), gateway.address());
        let chain = CertificateDer::pem_file_iter(certificate).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                chain.map(Result::unwrap).collect(),
                PrivateKeyDer::from_pem_file(key).unwrap(),
            );
        let config = Arc::new(config.unwrap());
        spawn_helper(move || {
            for client in listener.incoming().flatten() {
                let plain = TcpStream::connect(&gateway).unwrap();
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                let tls = Arc::new(Mutex::new(tls));
                let (replies, to) = (plain.try_clone().unwrap(), client.try_clone().unwrap());
                let of_replies = Arc::clone(&tls);
                spawn_helper(move || {
                    encrypt(&of_replies, &replies, &to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                spawn_helper(move || {
                    decrypt(&tls, &client, &plain);
                    let _ = plain.shutdown(Shutdown::Both);
                });
            }
        });
        Self { port }
    }

    fn client(&self, certificates: &Certificates) -> Redlock {
        let url = format!("rediss://127.0.0.1:{}", self.port);
        Redlock::builder([url]).tls(trusting(&certificates.path("ca.crt"))).build().unwrap()
    }
}

fn encrypt(tls: &Mutex<ServerConnection>, mut from: &TcpStream, mut to: &TcpStream) {
    let mut read = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut read) {
        let mut tls = tls.lock().unwrap();
        tls.writer().write_all(&read[..count]).unwrap();
        while tls.wants_write() && tls.write_tls(&mut to).is_ok() {}
    }
}

fn decrypt(tls: &Mutex<ServerConnection>, mut from: &TcpStream, mut to: &TcpStream) {
    let mut read = vec![0; 4 << 10];
    while let Ok(count @ 1..) = from.read(&mut read) {
        let (mut tls, mut records) = (tls.lock().unwrap(), &read[..count]);
        while !records.is_empty() {
            tls.read_tls(&mut records).unwrap();
            tls.process_new_packets().unwrap();
        }
        while tls.wants_write() && tls.write_tls(&mut from).is_ok() {}
        let mut plain = Vec::new();
        // Ends with an error once everything was read.
        let _ = tls.reader().read_to_end(&mut plain);
        drop(tls);
        if to.write_all(&plain).is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn end_without_close_notify_is_like_any_other_end() {
    let (server, certificates) = (Server::start(), Certificates::new());
    let gateway = Gateway::to(server.port, |words, _| match &*words[0] {
        "HELLO" => Verdict::Close,
        _ if words.iter().any(|word| word.ends_with("ends")) => Verdict::Close,
        _ => Verdict::Pass,
    });
    let (certificate, key) = (certificates.path("server.crt"), certificates.path("server.key"));
    let client = Front::to(&gateway, &certificate, &key).client(&certificates);
    // A proxy that closes the connection at HELLO is used without it.
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    // An open connection may end the same way.
    let error = client.lock("ends").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().ends_with("the server closed the connection"), "{error}");
}
