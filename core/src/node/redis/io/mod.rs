//! Opens sockets and moves bytes: TCP, Unix sockets and TLS. No module here knows what the bytes mean.
//!
//! A [`stream`](stream) is opened in a runtime. The open connection then is a [`socket`](socket) that any thread may use,
//! without blocking.

pub(super) mod socket;
pub(super) mod stream;
pub(super) mod tls;
mod transport;
