//! Searches for the primary among sentinels whose replies the test controls.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Condvar, Mutex};
use std::thread;

use super::*;
use crate::node::SharedSettings;
use crate::node::redis::io::tls::TlsOptions;
use crate::options::Address;
use crate::runtime::lock;

/// Above what a test takes, and below half of [`CONNECT_TIMEOUT`].
const LIMIT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// The port, epoch and age of the primary that a sentinel reports.
type Primary = (u16, u64, Duration);
const HOUR: Duration = Duration::from_secs(3600);
const OLD: Primary = (1, 5, HOUR);
const NEW: Primary = (2, 6, Duration::ZERO);

#[derive(Default)]
struct Script {
    /// The reply to a listener. `None` delays it.
    listener: Option<Primary>,
    /// The reply to a search. `None` delays it.
    search: Option<Primary>,
    /// The number of requests of the listener, and of searches.
    asked: [usize; 2],
    /// The connection of the listener.
    events: Option<TcpStream>,
}

/// A sentinel.
struct Fake {
    port: u16,
    script: Mutex<Script>,
    changed: Condvar,
}

impl Fake {
    fn start() -> Arc<Self> {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let fake = Arc::new(Self { port, script: Mutex::default(), changed: Condvar::new() });
        let ours = Arc::clone(&fake);
        thread::spawn(move || {
            for client in server.incoming().flatten() {
                let fake = Arc::clone(&ours);
                thread::spawn(move || fake.serve(&client));
            }
        });
        fake
    }

    /// Only a listener subscribes, and it does so before its first request.
    fn serve(&self, mut client: &TcpStream) -> Option<()> {
        let mut lines = BufReader::new(client.try_clone().unwrap()).lines();
        let mut primary = None;
        let mut is_listener = false;
        while let Some(Ok(line)) = lines.next() {
            let reply = match &*line {
                "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
                "SUBSCRIBE" => {
                    is_listener = true;
                    self.change(|script| script.events = Some(client.try_clone().unwrap()));
                    ">1\r\n$9\r\nsubscribe\r\n".to_owned()
                }
                "GET-MASTER-ADDR-BY-NAME" => {
                    let (port, ..) = *primary.insert(self.primary(is_listener)?);
                    format!("*2\r\n$1\r\nh\r\n$1\r\n{port}\r\n")
                }
                "MASTER" => {
                    let (port, epoch, age) = primary?;
                    format!(
                        "%4\r\n+ip\r\n+h\r\n+port\r\n+{port}\r\n+config-epoch\r\n+{epoch}\r\n\
                         +role-reported-time\r\n+{}\r\n",
                        age.as_millis()
                    )
                }
                _ => continue,
            };
            client.write_all(reply.as_bytes()).ok()?;
        }
        None
    }

    /// Counts a request, and waits until it has a reply.
    fn primary(&self, is_listener: bool) -> Option<Primary> {
        self.change(|script| script.asked[usize::from(!is_listener)] += 1);
        let reply = |script: &Script| if is_listener { script.listener } else { script.search };
        let has_none = |script: &mut Script| reply(script).is_none();
        reply(&*self.changed.wait_while(lock(&self.script), has_none).ok()?)
    }

    fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut lock(&self.script));
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&Script) -> bool) {
        let script = lock(&self.script);
        let waited = self.changed.wait_timeout_while(script, LIMIT, |script| !until(script));
        assert!(!waited.unwrap().1.timed_out(), "the sentinel is asked");
    }

    /// Reports a failover to the listener. Returns once the listener has handled the report.
    fn fail_over(&self) {
        for _ in 0..2 {
            // It asks again only after it has handled the previous reply.
            let before = lock(&self.script).asked[0];
            self.change(|script| {
                script.listener = Some(NEW);
                let _ = script.events.as_ref().unwrap().write_all(b">1\r\n+event\r\n");
            });
            self.wait(|script| script.asked[0] > before);
        }
    }
}

fn resolver(fakes: &[Arc<Fake>; 3]) -> Resolver {
    let hosts = fakes.each_ref().map(|fake| format!("127.0.0.1:{}", fake.port)).join(",");
    let shared = SharedSettings::new(TlsOptions::default(), None, None, CONNECT_TIMEOUT, None);
    let address = Address::parse(&format!("redis+sentinel://{hosts}/service"));
    let Ok(Address::Redis(route)) = address.and_then(|address| address.with(&shared)) else {
        unreachable!()
    };
    Resolver::new(&route, Duration::ZERO)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(LIMIT, future).await }).expect("in time")
}

/// Searches for the primary, and returns its port.
fn find(resolver: &Resolver) -> Result<u16, Fault> {
    run(resolver.find()).map(|found| found.primary.unwrap().port)
}

#[test]
fn replies_from_before_a_failover_do_not_lead_back_to_the_old_primary() {
    let fakes @ [a, b, c] = &[(); 3].map(|()| Fake::start());
    for fake in [a, b] {
        fake.change(|script| (script.listener, script.search) = (Some(OLD), Some(OLD)));
    }
    let resolver = resolver(fakes);
    let found = run(resolver.find()).unwrap();
    assert_eq!(found.primary.as_ref().unwrap().port, OLD.0);
    // The leader of the failover reports it, and does not reply to the search that follows.
    c.change(|script| script.listener = Some(NEW));
    run(resolver.news().until_moved(&found));
    b.change(|script| script.search = None);
    thread::scope(|scope| {
        let search = scope.spawn(|| find(&resolver));
        a.wait(|script| script.asked[1] == 2);
        a.fail_over();
        // This reply was under way for longer.
        b.change(|script| script.search = Some(OLD));
        let found = search.join().unwrap();
        assert!(found.as_ref().is_err_and(|fault| fault.permanent().is_none()), "{found:?}");
    });
    for fake in [a, b] {
        fake.change(|script| script.search = Some(NEW));
    }
    assert_eq!(find(&resolver), Ok(NEW.0));
}

#[test]
fn service_that_was_added_again_is_found_while_one_sentinel_hangs() {
    let fakes @ [a, b, _] = &[(); 3].map(|()| Fake::start());
    for fake in [a, b] {
        fake.change(|script| script.search = Some(NEW));
    }
    let resolver = resolver(fakes);
    assert_eq!(find(&resolver), Ok(NEW.0));
    for fake in [a, b] {
        fake.change(|script| script.search = Some((3, 0, Duration::ZERO)));
    }
    assert_eq!(find(&resolver), Ok(3));
}

/// The password of the servers is not sent to sentinels.
#[test]
fn login_that_sentinels_refuse_is_their_own() {
    let resolver = resolver(&[(); 3].map(|()| Fake::start()));
    let service = resolver.route.service.as_ref().unwrap();
    let replies: Vec<_> = (0..3).map(|_| Err(Fault::new("NOAUTH").refused())).collect();
    let fault = judge(service, &replies, None, false).unwrap_err();
    assert!(fault.to_string().contains("sentinel_password"), "{fault}");
    let replies = vec![Err(Fault::new("the server does not use TLS").refused())];
    let fault = judge(service, &replies, None, false).unwrap_err();
    assert!(!fault.to_string().contains("sentinel_password"), "{fault}");
}
