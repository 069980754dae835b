//! Looks up host names, one lookup per name at a time.
//!
//! The system's resolver cannot be cancelled, and may take longer than an attempt to connect. Later attempts join the
//! lookup that an earlier one began, whatever their node, service or client. The number of threads is therefore
//! limited by the number of names. A failed lookup is not kept, and a result only if it came too late for every
//! attempt ([`SharedRequests`]).

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;

use super::step;
use crate::clock::{Clock, SystemClock};
use crate::node::shared_request::{SharedRequest, SharedRequests};
use crate::runtime::background;

/// The addresses of a name, with the port 0, or the error of the resolver.
type FoundAddresses = Result<Arc<[SocketAddr]>, Arc<io::Error>>;

/// The lookups of all clients of this process, by name in lower case.
static REQUESTS: SharedRequests<String, FoundAddresses> = SharedRequests::new();

/// Returns the addresses of a host, in the order of the resolver.
pub(super) async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    step::enter(format!("the lookup of {host}"));
    #[cfg(test)]
    test_names::count_attempt(host);
    let found = join_or_begin(host.to_lowercase()).result().await;
    let found = found.ok_or_else(|| io::Error::other("the background thread is missing"))?;
    let with_port = |address: &SocketAddr| {
        let mut address = *address;
        address.set_port(port);
        address
    };
    found.map(|found| found.iter().map(with_port).collect()).map_err(|error| copy_of(&error))
}

/// Returns the lookup of this name that is under way or was kept, or begins one on a new thread. Tokio's `lookup_host`
/// panics if the system has no thread left.
fn join_or_begin(name: String) -> SharedRequest<FoundAddresses> {
    let (request, begun) = REQUESTS.join_or_begin(&name, SystemClock.now(), Result::is_ok);
    let Some(completion) = begun else { return request };
    let ((found, addresses), host) = (oneshot::channel(), name.clone());
    let resolve = move || drop(found.send(resolve(&host)));
    let started = thread::Builder::new().name("redlock-lookup".into()).spawn(resolve);
    if let Err(error) = started {
        let text = format!("cannot start a thread that looks up the host name: {error}");
        let failed = Err(Arc::new(io::Error::other(text)));
        REQUESTS.deliver_result(&name, completion, failed, false, SystemClock.now());
        return request;
    }
    // The thread itself never locks the lookups, because the system may suspend it there.
    background::spawn(async move {
        let panicked = || Err(io::Error::other("the lookup of the host name panicked"));
        let found = addresses.await.unwrap_or_else(|_| panicked());
        let (is_ok, found) = (found.is_ok(), found.map(Arc::from).map_err(Arc::new));
        REQUESTS.deliver_result(&name, completion, found, is_ok, SystemClock.now());
    })
    .detach();
    request
}

fn resolve(host: &str) -> io::Result<Vec<SocketAddr>> {
    #[cfg(test)]
    if let Some(found) = test_names::resolve(host) {
        return found;
    }
    (host, 0).to_socket_addrs().map(Vec::from_iter)
}

/// Copies an error with its text and cause, which each waiting attempt reports.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Names that the resolver finds as a test decides.
#[cfg(test)]
pub(crate) mod test_names {
    use std::io;
    use std::net::{IpAddr, SocketAddr};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Condvar, Mutex};

    use crate::runtime::{PerProcess, lock};

    type Names = Mutex<Vec<(&'static str, Arc<SlowName>)>>;

    static NAMES: PerProcess<Names> = PerProcess::new();

    /// A name whose lookups take until the test ends them.
    #[derive(Default)]
    pub(crate) struct SlowName {
        /// The number of attempts to connect so far.
        attempts: AtomicUsize,
        /// The number of lookups so far.
        count: AtomicUsize,
        /// The addresses that every lookup finds, once the test has set them.
        found: Mutex<Option<Vec<IpAddr>>>,
        changed: Condvar,
    }

    impl SlowName {
        pub(crate) fn add(name: &'static str) -> Arc<Self> {
            let this = Arc::new(Self::default());
            lock(&NAMES.get_or_make(Mutex::default)).push((name, Arc::clone(&this)));
            this
        }

        pub(crate) fn attempts(&self) -> usize {
            self.attempts.load(Ordering::SeqCst)
        }

        pub(crate) fn count(&self) -> usize {
            self.count.load(Ordering::SeqCst)
        }

        /// Ends all lookups with these addresses. Without any, they fail.
        pub(crate) fn end_all(&self, found: Vec<IpAddr>) {
            *lock(&self.found) = Some(found);
            self.changed.notify_all();
        }
    }

    fn slow(host: &str) -> Option<Arc<SlowName>> {
        let named = |(name, slow): &(&str, Arc<SlowName>)| {
            name.eq_ignore_ascii_case(host).then(|| Arc::clone(slow))
        };
        lock(&NAMES.get_or_make(Mutex::default)).iter().find_map(named)
    }

    pub(super) fn count_attempt(host: &str) {
        if let Some(slow) = slow(host) {
            slow.attempts.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(super) fn resolve(host: &str) -> Option<io::Result<Vec<SocketAddr>>> {
        let slow = slow(host)?;
        slow.count.fetch_add(1, Ordering::SeqCst);
        let found = slow.changed.wait_while(lock(&slow.found), |found| found.is_none()).unwrap();
        let found: Vec<_> = found.iter().flatten().map(|ip| SocketAddr::new(*ip, 0)).collect();
        Some(if found.is_empty() { Err(io::Error::other("no such name")) } else { Ok(found) })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::test_names::SlowName;
    use super::*;

    const IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn found(port: u16) -> Vec<SocketAddr> {
        vec![SocketAddr::new(IP, port)]
    }

    async fn until(what: &str, reached: impl Fn() -> bool) {
        let wait = async {
            while !reached() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.expect(what);
    }

    fn is_kept(name: &str) -> Option<bool> {
        REQUESTS.is_kept(&name.to_owned())
    }

    #[tokio::test]
    async fn attempts_join_one_lookup_of_their_host() {
        let (slow, other) = (SlowName::add("joined.test"), SlowName::add("other.test"));
        // Attempts that end before the lookup does, whose results are not lost.
        for _ in 0..20 {
            assert!(look_up("joined.test", 1).now_or_never().is_none());
        }
        let waiting = join_all(
            [("joined.test", 1), ("JOINED.test", 2)].map(|(name, port)| look_up(name, port)),
        );
        let waiting = tokio::spawn(waiting);
        // Another name does not wait for this one.
        other.end_all(vec![IP]);
        assert_eq!(look_up("other.test", 3).await.unwrap(), found(3));
        until("it began", || slow.count() > 0).await;
        slow.end_all(vec![IP]);
        let results = waiting.await.unwrap();
        assert_eq!(
            results.into_iter().map(Result::unwrap).collect::<Vec<_>>(),
            [found(1), found(2)]
        );
        assert_eq!((slow.count(), other.count()), (1, 1));
    }

    #[tokio::test]
    async fn late_address_serves_the_next_attempt_once() {
        let slow = SlowName::add("late.test");
        assert!(look_up("late.test", 1).now_or_never().is_none());
        slow.end_all(vec![IP]);
        until("it ended", || is_kept("late.test") == Some(true)).await;
        assert_eq!(look_up("late.test", 1).await.unwrap(), found(1));
        // An address may change, so that the one after it asks again.
        assert_eq!(look_up("late.test", 1).await.unwrap(), found(1));
        assert_eq!(slow.count(), 2);
        assert_eq!(is_kept("late.test"), None);
    }

    #[tokio::test]
    async fn failed_lookup_is_not_kept() {
        let slow = SlowName::add("failing.test");
        assert!(look_up("failing.test", 1).now_or_never().is_none());
        until("it began", || slow.count() == 1).await;
        slow.end_all(Vec::new());
        until("it ended", || is_kept("failing.test").is_none()).await;
        let error = look_up("failing.test", 1).await.unwrap_err();
        assert!(error.to_string().contains("no such name"), "{error}");
        assert_eq!(slow.count(), 2);
    }

    #[test]
    fn address_needs_no_lookup() {
        for host in ["127.0.0.1", "::1"] {
            assert!(look_up(host, 1).now_or_never().unwrap().is_ok());
            assert_eq!(is_kept(host), None);
        }
    }
}
