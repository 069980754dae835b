//! Certificates, and TLS servers that use them.

use std::path::{Path, PathBuf};
use std::process::Command;

use redlock::{Error, Redlock, TlsOptions};

use super::{Server, free_port, millis};

/// A certificate authority for one test, with a server and a client certificate.
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    pub(crate) fn new() -> Self {
        let folder = std::env::temp_dir().join(format!(
            "redlock-tls-{}-{}",
            std::process::id(),
            free_port()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let certificates = Self(folder);
        for ca in ["ca", "other-ca"] {
            certificates.openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -keyout {ca}.key -out {ca}.crt -days 2 -subj /CN={ca}"
            ));
        }
        for (name, extension) in [
            ("server", "subjectAltName=DNS:redis.test,IP:127.0.0.1"),
            ("client", "extendedKeyUsage=clientAuth"),
        ] {
            std::fs::write(certificates.0.join(format!("{name}.ext")), extension).unwrap();
            certificates.openssl(&format!(
                "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
            ));
            certificates.openssl(&format!(
                "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
                 -out {name}.crt -extfile {name}.ext"
            ));
        }
        certificates
    }

    /// Runs `openssl` in the folder. Returns what it prints.
    pub(crate) fn openssl(&self, arguments: &str) -> String {
        let run = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(&self.0)
            .output();
        let run = run.expect("openssl is needed by the tests");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8_lossy(&run.stdout).into_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn server(&self, auth_clients: &str) -> (Server, u16) {
        self.server_as("server", auth_clients)
    }

    /// A server that uses this certificate.
    pub(crate) fn server_as(&self, certificate: &str, auth_clients: &str) -> (Server, u16) {
        let port = free_port();
        let options = self.options(certificate, auth_clients, port);
        let server = Server::with(&options.iter().map(String::as_str).collect::<Vec<_>>());
        (server, port)
    }

    /// Options of a server that accepts TLS at this port.
    pub(crate) fn options(&self, certificate: &str, auth_clients: &str, port: u16) -> Vec<String> {
        let path = |name: &str| self.path(name).to_string_lossy().into_owned();
        let options = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", path(&format!("{certificate}.crt"))),
            ("--tls-key-file", path("server.key")),
            ("--tls-ca-cert-file", path("ca.crt")),
            ("--tls-auth-clients", auth_clients.to_owned()),
        ];
        options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) async fn locks(url: String, tls: TlsOptions) -> Result<(), Error> {
    let redlock = Redlock::builder([url]).tls(tls).build()?;
    redlock.lock("job").wait(millis(1000)).acquire().await?.release().await
}

pub(crate) fn trusting(ca: &Path) -> TlsOptions {
    TlsOptions::new().ca(ca)
}
