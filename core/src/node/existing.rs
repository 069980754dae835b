//! Converts the connection settings of the `redis` crate into a node URL.

use ::redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};
use url::Url;

use crate::error::{Error, Result};

/// Returns the URL with the same meaning, and whether the client has its own certificates, which the `redis` crate does
/// not expose. Keepalive settings and the library name are ignored, because they do not matter for locks.
pub(crate) fn taken_over(info: &ConnectionInfo) -> Result<(String, bool)> {
    let settings = info.redis_settings();
    if settings.db() < 0 {
        return Err(refused("its database, which is below 0,"));
    }
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            Ok((server("redis", host, *port, settings)?.into(), false))
        }
        ConnectionAddr::TcpTls { host, port, insecure, tls_params } => {
            let mut url = server("rediss", host, *port, settings)?;
            if *insecure {
                url.query_pairs_mut().append_pair("ssl_cert_reqs", "none");
            }
            Ok((url.into(), tls_params.is_some()))
        }
        ConnectionAddr::Unix(path) => {
            let file = Url::from_file_path(path).map_err(|()| refused("the path of its socket"))?;
            let url = file.as_str().replacen("file:", "unix:", 1);
            let mut url = Url::parse(&url).map_err(|_| refused("the path of its socket"))?;
            let db = settings.db().to_string();
            let given = [
                ("db", (db != "0").then_some(&*db)),
                ("username", settings.username()),
                ("password", settings.password()),
            ];
            for (name, value) in given {
                if let Some(value) = value {
                    url.query_pairs_mut().append_pair(name, value);
                }
            }
            Ok((url.into(), false))
        }
        _ => Err(refused("its kind of address")),
    }
}

/// Builds a URL from host, port, login and database.
fn server(scheme: &str, host: &str, port: u16, settings: &RedisConnectionInfo) -> Result<Url> {
    let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let mut url = Url::parse(&format!("{scheme}://host")).map_err(|_| refused("its host"))?;
    // Any character that ends the host would change the destination, which would then receive the password.
    let named =
        if host.is_empty() { Err(()) } else { url.set_host(Some(&bracketed)).map_err(|_| ()) };
    named.map_err(|()| refused("its host, which is not a name or an address,"))?;
    let login = url
        .set_port(Some(port))
        .and_then(|()| url.set_username(settings.username().unwrap_or_default()))
        .and_then(|()| url.set_password(settings.password()));
    login.map_err(|()| refused("its login"))?;
    if settings.db() != 0 {
        url.set_path(&settings.db().to_string());
    }
    Ok(url)
}

/// The error for a setting that determines the server or the trust in it and has no equivalent here.
fn refused(what: &str) -> Error {
    Error::invalid(format!(
        "{what} has no equivalent in redlock. Pass the node's URL to Redlock::builder([\"redis://...\"])"
    ))
}

/// The error for certificates that cannot be read from the `redis` crate.
pub(crate) fn unseen(url: &str) -> Error {
    Error::invalid(format!(
        "node {url} has tls_params, which the redis crate does not expose. Pass them again with \
         Builder::tls(TlsOptions::new().ca(...))"
    ))
}

#[cfg(feature = "tls")]
#[cfg(test)]
mod tests {
    use crate::client::Builder;
    use crate::node::TlsOptions;
    use crate::options::client::Settings;

    /// The `redis` crate creates such certificates only with its TLS features, which this crate does not enable.
    fn with_unseen_certificates() -> Builder {
        let nodes = vec!["redis://127.0.0.1:1".to_owned(), "rediss://127.0.0.1:2/1".to_owned()];
        Builder(Settings { unseen: vec![1], ..Settings::for_nodes(nodes) })
    }

    #[test]
    fn unreadable_certificates_must_be_passed_again() {
        let error = with_unseen_certificates().build().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("rediss://127.0.0.1:2/1") && text.contains("tls_params"), "{text}");
        let named = with_unseen_certificates().tls(TlsOptions::new().server_name("redis.test"));
        assert_eq!(named.build().unwrap_err().to_string(), text);
        with_unseen_certificates().tls(TlsOptions::new().verify(false)).build().unwrap();
    }
}
