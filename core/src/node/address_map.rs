//! Where a client reaches a server under another address than the server announces, for example through NAT, a tunnel
//! or a published port of a container.
//!
//! Applied to the addresses in the replies of sentinels and clusters, at each attempt to connect. Everything else knows
//! a server by the address that it announces, so a map never changes which server owns a slot.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use url::Host;

use crate::error::{Error, Result};
use crate::node::Fault;
use crate::node::callback::{self, CONNECTING, Callback, Function};
use crate::text::{host_and_port, shown, spelled};

/// A host, by name or address, and a port.
pub type HostPort = (String, u16);

/// Requests the address of a server from the one that it announces.
pub type AskAddress = Function<HostPort, HostPort>;

/// The option `address_map`.
#[derive(Clone)]
pub enum AddressMapOption {
    /// Announced addresses and their replacements, each as `host:port`.
    Table(Vec<(String, String)>),
    /// A function of the program.
    Function(Arc<AskAddress>),
}

/// A checked map, which all nodes of a client share.
#[derive(Clone)]
pub(crate) enum AddressMap {
    Table(Arc<HashMap<HostPort, HostPort>>),
    Callback(Callback<HostPort, HostPort, HostPort>),
}

const NAME: &str = "address_map";
const RULE: &str = "host:port, such as 10.0.0.1:6379 or [fd00::1]:6379";

impl AddressMap {
    /// Checks the option. An error names the address that breaks the rule.
    pub(crate) fn new(option: AddressMapOption) -> Result<Self> {
        let entries = match option {
            AddressMapOption::Table(entries) => entries,
            AddressMapOption::Function(function) => {
                let check = |(host, port), _| checked(host, port);
                return Ok(Self::Callback(Callback::new(NAME, function, check)));
            }
        };
        let mut table = HashMap::new();
        for (announced, reached) in &entries {
            let read = |text: &String| {
                parse(text).ok_or_else(|| {
                    let got = quoted(text);
                    Error::invalid(format!("{} contains {got}, which is not {RULE}", spelled(NAME)))
                })
            };
            // Servers announce names in any case.
            let (host, port) = read(announced)?;
            if table.insert((host.to_lowercase(), port), read(reached)?).is_some() {
                return Err(Error::invalid(format!(
                    "{} contains {} twice. Keep one of them",
                    spelled(NAME),
                    quoted(announced)
                )));
            }
        }
        Ok(Self::Table(Arc::new(table)))
    }

    /// Returns the address at which this client reaches a server that announces this one.
    pub(crate) async fn reached(
        &self,
        announced: HostPort,
    ) -> std::result::Result<HostPort, Fault> {
        match self {
            Self::Table(table) => {
                let (host, port) = &announced;
                let found = table.get(&(host.to_lowercase(), *port));
                Ok(found.unwrap_or(&announced).clone())
            }
            Self::Callback(callback) => {
                let text = host_and_port(&announced.0, announced.1);
                let reached = callback.result(announced, |_| true, CONNECTING).await;
                reached.map_err(|fault| fault.hinting(&format!("for {}", shown(&text))))
            }
        }
    }
}

/// Runs the function of a Rust program on a separate thread for each call.
pub(crate) fn on_thread(
    function: impl Fn(&str, u16) -> HostPort + Send + Sync + 'static,
) -> Arc<AskAddress> {
    callback::on_thread("redlock-address-map", move |(host, port): HostPort| {
        Ok(function(&host, port))
    })
}

/// Parses `host:port`. An IPv6 address has brackets.
fn parse(text: &str) -> Option<HostPort> {
    let (host, port) = text.trim().rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_bracketed = inner.is_some();
    let host = inner.unwrap_or(host);
    (is_host(host) && host.contains(':') == is_bracketed).then(|| (host.to_owned(), port))
}

/// Checks the result of a function.
fn checked(host: String, port: u16) -> std::result::Result<HostPort, String> {
    if !is_host(&host) {
        return Err(format!(
            "returned {}, which is not the name or address of a host",
            quoted(&host)
        ));
    }
    if port == 0 { Err("returned the port 0".to_owned()) } else { Ok((host, port)) }
}

/// Whether it is the name or the address of one host.
fn is_host(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        return !address.is_unspecified();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    host.bytes().all(plain) && matches!(Host::parse(host), Ok(Host::Domain(_)))
}

/// Quotes the text, unless it may be a URL with a password.
fn quoted(text: &str) -> String {
    if text.contains(['@', '/']) {
        "text that is not shown, because it may contain a password".to_owned()
    } else {
        format!("\"{}\"", shown(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, &str)]) -> Result<AddressMap> {
        let text = |text: &&str| (*text).to_owned();
        let entries = entries.iter().map(|(from, to)| (text(from), text(to))).collect();
        AddressMap::new(AddressMapOption::Table(entries))
    }

    #[tokio::test]
    async fn table_maps_whole_addresses_and_keeps_the_others() {
        let map = table(&[("H1:6379", "127.0.0.1:7001"), ("[FD00::1]:1", "[::1]:2")]).unwrap();
        for (announced, reached) in [
            (("h1", 6379), ("127.0.0.1", 7001)),
            (("H1", 6380), ("H1", 6380)),
            (("fd00::1", 1), ("::1", 2)),
        ] {
            let found = map.reached((announced.0.to_owned(), announced.1)).await.unwrap();
            assert_eq!(found, (reached.0.to_owned(), reached.1));
        }
    }

    #[test]
    fn table_with_an_invalid_address_is_an_error() {
        for wrong in [
            "",
            "h",
            ":1",
            "h:",
            "h:0",
            "h:70000",
            "h:x",
            "a,b:1",
            "::1:6379",
            "[h]:1",
            "0.0.0.0:1",
        ] {
            for entry in [(wrong, "h:1"), ("h:1", wrong)] {
                let error = table(&[entry]).err().expect(wrong).to_string();
                assert!(error.contains(&format!("\"{wrong}\"")), "{error}");
            }
        }
        let error = table(&[("h:1", "redis://:s3cret@h:1")]).err().unwrap().to_string();
        assert!(!error.contains("s3cret"), "{error}");
        assert!(table(&[("h:1", "a:1"), ("H:1", "b:1")]).is_err());
    }

    #[tokio::test]
    async fn function_must_return_a_host_and_a_port() {
        for (host, port, said) in [
            ("", 1, "returned \"\""),
            ("a b", 1, "returned \"a b\""),
            ("redis://:s3cret@h", 1, "not shown"),
            ("h", 0, "the port 0"),
        ] {
            let function = on_thread(move |_, _| (host.to_owned(), port));
            let map = AddressMap::new(AddressMapOption::Function(function)).unwrap();
            let error = map.reached(("10.0.0.1".to_owned(), 6379)).await.unwrap_err().to_string();
            let expected = error.contains(said) && error.contains("10.0.0.1:6379");
            assert!(expected && !error.contains("s3cret"), "{error}");
        }
    }
}
