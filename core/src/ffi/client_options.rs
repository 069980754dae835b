//! The options of a client that the bindings accept. See [`super::options`].

use super::options::{Kind, Row};
use crate::options::client::Settings;

/// The options of a client.
///
/// The nodes are a separate argument, and the bindings cannot set a clock.
pub const CLIENT_OPTIONS: &[Row<Settings>] = &[
    Row {
        name: "key_prefix",
        kind: Kind::Text(|settings, prefix| settings.key_prefix = Some(prefix)),
        default: "`lock:`",
        rule: "",
        about: "prefix of every key. An empty prefix shares keys with other libraries",
    },
    Row {
        name: "node_timeout",
        kind: Kind::Time(|settings, timeout| settings.node_timeout = Some(timeout)),
        default: "min(1 s, `ttl` / 5). With `fsync` min(3 s, `ttl` / 3)",
        rule: "above 0",
        about: "timeout for the reply of one node, for all locks of the client",
    },
    Row {
        name: "connect_timeout",
        kind: Kind::Time(|settings, timeout| settings.connect_timeout = Some(timeout)),
        default: "5 s",
        rule: "above 0",
        about: "timeout for connecting: name lookup, TCP, TLS and login",
    },
    Row {
        name: "unavailable_after",
        kind: Kind::TimeOrNull(|settings, time| settings.unavailable_after = Some(time)),
        default: "10 s",
        rule: "above 0, or none for no limit",
        about: "maximum time that an acquire without a `wait` goes on while no quorum of nodes replies",
    },
    Row {
        name: "restart_guard",
        kind: Kind::Time(|settings, guard| settings.restart_guard = Some(guard)),
        default: "60 s with several nodes, otherwise 0 (off)",
        rule: "the same on every client",
        about: "with several nodes, how long a restarted node grants no new lease. No `ttl` may exceed it",
    },
    Row {
        name: "min_replicas",
        kind: Kind::Count(0, |settings, replicas| settings.durability.min_replicas = replicas),
        default: "0",
        rule: "at most 100",
        about: "number of replicas that must confirm a grant or renewal before it counts (`WAIT`)",
    },
    Row {
        name: "fsync",
        kind: Kind::Switch(|settings, fsync| settings.durability.fsync = fsync),
        default: "off",
        rule: "Redis 7.2 or Valkey, with `appendonly yes`",
        about: "require that a grant or renewal is on disk before it counts (`WAITAOF`)",
    },
    Row {
        name: "tls_ca",
        kind: Kind::Pem(|settings, pem| settings.tls.ca = Some(pem)),
        default: "those of the system, in Node.js those of Node.js",
        rule: "the path of a PEM file, or its bytes. Only for `rediss://`",
        about: "certificates of CAs and servers to trust",
    },
    Row {
        name: "tls_cert",
        kind: Kind::Pem(|settings, pem| settings.tls.cert = Some(pem)),
        default: "none",
        rule: "the path of a PEM file, or its bytes. Only with `tls_key`",
        about: "the client's certificate chain, if the server requires one",
    },
    Row {
        name: "tls_key",
        kind: Kind::Pem(|settings, pem| settings.tls.key = Some(pem)),
        default: "none",
        rule: "the path of a PEM file, or its bytes. Only with `tls_cert`",
        about: "the private key of the client's certificate",
    },
    Row {
        name: "tls_server_name",
        kind: Kind::Text(|settings, name| settings.tls.server_name = Some(name)),
        default: "the URL's host",
        rule: "only for `rediss://`",
        about: "name that the server's certificate must contain",
    },
    Row {
        name: "tls_verify",
        kind: Kind::Switch(|settings, verify| settings.tls.verify = Some(verify)),
        default: "on",
        rule: "only for `rediss://`. Not off with `tls_ca`",
        about: "verify the server's certificate",
    },
    Row {
        name: "client_name",
        kind: Kind::Text(|settings, name| settings.client_name = Some(name)),
        default: "`redlock`",
        rule: "1 to 255 printable ASCII characters without spaces",
        about: "name of the connections in the server's `CLIENT LIST` and log",
    },
    Row {
        name: "label",
        kind: Kind::Label(|settings, label| settings.label = Some(label)),
        default: "none",
        rule: "1 to 48 ASCII letters, digits or characters of `._@-`. Or true or false",
        about: "label of the locks that set none. True writes the host and the process",
    },
    Row {
        name: "credentials",
        kind: Kind::Credentials(|settings, ask| settings.credentials = Some(ask)),
        default: "taken from the URLs",
        rule: "a function. Not with a user or a password in a URL",
        about: "callback that supplies the Redis username and password, called at each connect and before they expire",
    },
    Row {
        name: "address_map",
        kind: Kind::AddressMap(|settings, map| settings.address_map = Some(map)),
        default: "none",
        rule: "`host:port` by `host:port`, or a function. Only for `redis+sentinel://` and `redis+cluster://`",
        about: "where to connect to servers that announce other addresses, such as behind NAT or Docker",
    },
];
