//! Tests panics of the task of a node and of its connection.
//!
//! It is in the source folder because it needs the hook [`may_panic`], which exists in test builds only.

mod fuzz;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::commands::scripts::{Operation, script};
use super::io::lookup::test_names::SlowName;
use super::protocol::InFlight;
use crate::clock::{Clock, Instant, Sleep, SystemClock};
use crate::node::redis::commands::command::Command;
use crate::node::redis::protocol::Target;
use crate::node::redis::server::RedisNode;
use crate::node::redis::server::queue;
use crate::node::redis::{CONNECT_TIMEOUT, Durability, Needs};
use crate::node::{Claim, Fencing, Node, ReleaseMode, Reply, VoteParams, Watch};
use crate::options::Address;
#[cfg(feature = "simulation")]
use crate::runtime::environment::simulated;

const SECOND: Duration = Duration::from_secs(1);
/// The key that makes the node's task panic.
const FATAL: &str = "panic-on-purpose";
/// The key to which the server does not reply.
const SILENT: &str = "silent";

/// Called with each command. Panics at the fatal key. The simulation sends too many commands to search each of them.
pub(super) fn may_panic(command: &Command) {
    #[cfg(feature = "simulation")]
    if simulated::current().is_some() {
        return;
    }
    let fatal = command.bytes.windows(FATAL.len()).any(|word| word == FATAL.as_bytes());
    assert!(!fatal, "on purpose");
}

/// Runs the work in a named thread. With the name of its test, it would look like a test that does not end.
fn spawn_helper(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name("aside".into()).spawn(work).unwrap();
}

/// Starts a server that replies OK to every command, and that each key is free. It does not reply for the silent key.
/// Each delete is reported, and every second one gets a reply. After a missing reply, that connection gets no further
/// one, because a server replies in order.
fn server() -> (String, UnboundedReceiver<()>) {
    let ((report, deletes), replies) = (unbounded_channel(), Arc::new(AtomicBool::new(true)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    spawn_helper(move || {
        for mut stream in listener.incoming().flatten() {
            let (report, replies) = (report.clone(), Arc::clone(&replies));
            spawn_helper(move || {
                let (mut buffer, mut text, mut silent) = ([0; 4096], String::new(), false);
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    text.push_str(&String::from_utf8_lossy(&buffer[..count]));
                    while let Some(words) = command(&mut text) {
                        let delete =
                            words[0] == "EVALSHA" && words[1] == script(Operation::Release).digest;
                        let reply = match delete {
                            true if replies.fetch_xor(true, Ordering::Relaxed) => String::new(),
                            true => format!("${}\r\n{}\r\n", words[4].len(), words[4]),
                            false => reply(&words),
                        };
                        silent |= reply.is_empty();
                        if !silent {
                            stream.write_all(reply.as_bytes()).unwrap();
                        }
                        if delete {
                            let _ = report.send(());
                        }
                    }
                }
            });
        }
    });
    (url, deletes)
}

/// Takes the first command from the text.
fn command(text: &mut String) -> Option<Vec<String>> {
    let mut lines = text.split_inclusive("\r\n").map(str::len);
    let count: usize = text.strip_prefix('*')?.split("\r\n").next()?.parse().ok()?;
    let mut end = lines.next()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length: usize =
            text.get(end..)?.strip_prefix('$')?.split("\r\n").next()?.parse().ok()?;
        end += text[end..].find("\r\n")? + 2;
        words.push(text.get(end..end + length)?.to_owned());
        text.get(end..end + length + 2)?;
        end += length + 2;
    }
    text.drain(..end);
    Some(words)
}

/// Returns the server's reply, which is empty for the silent key.
fn reply(words: &[String]) -> String {
    match &*words[0] {
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".into(),
        "EVALSHA" if words[3] == SILENT => String::new(),
        "EVALSHA" => format!("*3\r\n$-1\r\n:-2\r\n${}\r\n{}\r\n", words[3].len(), words[3]),
        _ => "+OK\r\n".into(),
    }
}

/// A node at this URL.
fn node(url: &str, clock: Arc<dyn Clock>) -> RedisNode {
    node_within(url, clock, CONNECT_TIMEOUT)
}

fn target(url: &str) -> Target {
    let Address::Redis(route) = Address::parse(url).unwrap() else { unreachable!() };
    let needs = Needs { key_prefix: "lock:".to_owned(), durability: Durability::default() };
    Target::alone(route, Duration::ZERO, needs, Arc::default())
}

fn node_within(url: &str, clock: Arc<dyn Clock>, connect_timeout: Duration) -> RedisNode {
    let mut target = target(url);
    target.route.server.connect_timeout = connect_timeout;
    let watch = Arc::new(Watch::new(Arc::default()));
    RedisNode::new(target, None, clock, watch)
}

fn claim() -> Claim {
    let keys = Arc::from(["key".to_owned()]);
    Claim::of_owner("ours".into(), keys)
}

/// Panics at one of its readings, counted from 1.
struct PanickingClock(AtomicUsize);

impl Clock for PanickingClock {
    fn now(&self) -> Instant {
        assert!(self.0.fetch_sub(1, Ordering::Relaxed) != 1, "on purpose");
        SystemClock.now()
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        SystemClock.sleep_until(at)
    }
}

#[tokio::test]
async fn panic_while_a_connection_begins_loses_no_later_command() {
    let (url, _deletes) = server();
    let mut failed = 0;
    for reading in 1..20 {
        let node = node(&url, Arc::new(PanickingClock(AtomicUsize::new(reading))));
        let soon = Duration::from_secs(30);
        failed += usize::from(timeout(soon, node.inspect("first", SECOND)).await.unwrap().is_err());
        assert_eq!(
            timeout(soon, node.inspect("later", SECOND)).await.unwrap(),
            Ok(None),
            "{reading}"
        );
    }
    assert!(failed > 3, "the clock panicked {failed} times while the connection began");
}

/// A server that is silent for less than that keeps its connection.
#[test]
fn each_command_has_the_timeout_of_its_caller() {
    let timeout = SECOND * 4;
    let ((queue, mut commands, _connection), clock) = (queue(None), Arc::new(SystemClock));
    let node = RedisNode::leading_to(queue, &target("redis://127.0.0.1"), clock);
    let params = VoteParams::later(SECOND * 60, timeout, Fencing::Off);
    let (_vote, _extension) = (node.acquire(&claim(), params), node.extend(&claim(), params));
    let _holder = node.inspect("key", timeout);
    let stay = ReleaseMode::Stay { time: SECOND, lengthens: true };
    for how in [ReleaseMode::Delete, ReleaseMode::DeleteLate, stay] {
        drop(node.release(&claim(), SECOND * 60, how, timeout));
    }
    let mut count = 0;
    while let Ok(InFlight { command, .. }) = commands.try_recv() {
        let words: Vec<_> = command.words().map(String::from_utf8_lossy).collect();
        assert_eq!(command.timeout, timeout, "{words:?}");
        count += 1;
    }
    assert_eq!(count, 6);
}

/// Each attempt to connect ends before the lookup does.
#[tokio::test]
async fn attempts_share_a_slow_lookup_and_its_result() {
    let (slow, (url, _deletes)) = (SlowName::add("slow.test"), server());
    let url = url.replace("127.0.0.1", "slow.test");
    let node = node_within(&url, Arc::new(SystemClock), Duration::from_millis(250));
    let soon = Duration::from_secs(30);
    let fault = timeout(soon, node.inspect("first", SECOND)).await.unwrap().unwrap_err();
    let words = "no connection within 0.250 s, waiting for the lookup of slow.test";
    assert!(fault.to_string().contains(words), "{fault}");
    timeout(soon, async {
        while slow.attempts() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it tries again");
    slow.end_all(vec![Ipv4Addr::LOCALHOST.into()]);
    timeout(soon, async {
        while !node.is_connected("") {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it connects");
    assert_eq!(timeout(soon, node.inspect("later", SECOND)).await.unwrap(), Ok(None));
    assert_eq!(slow.count(), 1, "an attempt, or the second connection, has begun another one");
}

/// Otherwise a client could end before the delete is sent. A delete whose vote also waits is not needed.
#[tokio::test]
async fn delete_that_waits_for_a_connection_counts_if_it_is_needed() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let lifetime = Duration::from_secs(60);
    let params = VoteParams { first: true, ..VoteParams::later(lifetime, lifetime, Fencing::Off) };
    let [needed, unneeded] = [(); 2].map(|()| node(&url, Arc::new(SystemClock)));
    let _reply = needed.release(&claim(), lifetime, ReleaseMode::Delete, SECOND);
    let _vote = unneeded.acquire(&claim(), params);
    let _reply = unneeded.release(&claim(), lifetime, ReleaseMode::Delete, SECOND);
    timeout(Duration::from_secs(4), async {
        while unneeded.may_leave_keys() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("a delete that is not needed counts");
    assert!(needed.may_leave_keys());
}

#[tokio::test]
async fn panicking_task_fails_its_requests_and_restarts() {
    let (url, mut deletes) = server();
    let node = node(&url, Arc::new(SystemClock));
    let claim = claim();
    for _ in 0..3 {
        let soon = Duration::from_secs(30);
        assert_eq!(timeout(soon, node.inspect("before", SECOND)).await.unwrap(), Ok(None));
        let release = node.release(&claim, Duration::from_secs(60), ReleaseMode::Delete, SECOND);
        timeout(soon, deletes.recv()).await.unwrap().unwrap();
        let (pending, fatal) = (node.inspect(SILENT, SECOND), node.inspect(FATAL, SECOND));
        let later = node.inspect("later", SECOND);
        let failed = async |reply: Reply<()>| {
            let fault = timeout(soon, reply).await.expect("refused at once").unwrap_err();
            assert!(fault.to_string().contains("task failed"), "{fault}");
        };
        failed(Box::pin(async { release.await.map(drop) })).await;
        failed(Box::pin(async { pending.await.map(drop) })).await;
        failed(Box::pin(async { fatal.await.map(drop) })).await;
        assert_eq!(timeout(soon, later).await.unwrap(), Ok(None), "was not taken yet");
        // The delete without a reply is sent again.
        timeout(soon, deletes.recv()).await.unwrap().unwrap();
    }
}
