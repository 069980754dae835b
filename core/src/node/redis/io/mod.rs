//! Opens sockets and moves bytes: TCP, Unix sockets and TLS. No module here knows what the bytes mean.
//!
//! A connection is opened in a runtime ([`open`]). It then is a [`socket`] that any thread may use, without
//! blocking.

pub(super) mod open;
pub(super) mod socket;
pub(super) mod tls;
pub(super) mod transport;
