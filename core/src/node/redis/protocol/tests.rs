//! Tests the protocol without a socket and without a clock.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::oneshot;

use super::combined::tests::{TTL, acquire, extend, full, release};
use super::{InFlight, Parser, PendingDeletes, Protocol, PushHandler, SILENCE, TICK};
use crate::clock::Instant;
use crate::node::redis::commands::capabilities::{Capabilities, Feature};
use crate::node::redis::commands::command::Purpose;
use crate::node::redis::commands::scripts::{plain, scripts};
use crate::node::redis::protocol::{RunIds, Target};
use crate::node::redis::state::link::Link;
use crate::node::{Durability, Fault, Needs, Watch, slot};
use crate::options::Address;

/// The time at the start of each test.
const START: Instant = Instant::from_start(Duration::from_secs(100));

/// Adds a caller that waits for the reply.
fn heard(mut in_flight: InFlight) -> (InFlight, oneshot::Receiver<Result<Value, Fault>>) {
    let (reply_to, reply) = oneshot::channel();
    in_flight.reply_to = reply_to;
    (in_flight, reply)
}

/// The protocol of a connection, and what its node has.
struct Connection {
    protocol: Protocol,
    link: Arc<Link>,
    now: Instant,
}

impl Connection {
    fn new() -> Self {
        Self::with(0, None)
    }

    /// `unkilled` is the start of a connection whose predecessor may still exist.
    fn with(min_replicas: u32, unkilled: Option<Instant>) -> Self {
        Self::supporting(Capabilities::default(), min_replicas, unkilled)
    }

    fn supporting(supported: Capabilities, min_replicas: u32, unkilled: Option<Instant>) -> Self {
        let Ok(Address::Redis(route)) = Address::parse("redis://127.0.0.1") else { unreachable!() };
        let durability = Durability { min_replicas, fsync: false };
        let needs = Needs { key_prefix: "lock:".to_owned(), durability };
        let target = Target::alone(route, Duration::ZERO, needs, Arc::default());
        let (link, watch) = (Arc::new(Link::default()), Arc::new(Watch::new(Arc::default())));
        link.set_used(START);
        let pushes = Arc::new(PushHandler::new(watch, START));
        let protocol = Protocol::new(
            target,
            Parser::default(),
            Duration::ZERO,
            PendingDeletes::new(Arc::clone(&link), None),
            supported,
            unkilled,
            pushes,
        );
        Self { protocol, link, now: START }
    }

    /// Submits a command that another one may follow immediately.
    fn submit(&mut self, in_flight: InFlight) {
        self.protocol.submit(in_flight, false, self.now);
    }

    /// Returns the commands to write, each with its arguments, as if they were written.
    fn written(&mut self) -> Vec<Vec<String>> {
        let now = self.now;
        self.protocol.request_confirmation(|| now);
        let bytes = self.protocol.bytes().to_vec();
        self.protocol.written(bytes.len());
        let (mut parser, mut commands) = (Parser::default(), Vec::new());
        parser.add(&bytes);
        while let Some(Value::Array(words)) = parser.next().unwrap() {
            let word = |word| match word {
                Value::BulkString(word) => String::from_utf8(word).unwrap(),
                other => panic!("{other:?}"),
            };
            commands.push(words.into_iter().map(word).collect());
        }
        commands
    }

    /// Handles bytes of the server and their consequences.
    fn receive_text(&mut self, bytes: &str) -> Option<Fault> {
        let now = self.now;
        self.protocol.receive_bytes(bytes.as_bytes(), &|| now)
    }

    /// Returns the number of commands of each request that has no reply.
    fn shape(&mut self) -> Vec<usize> {
        self.protocol.bytes();
        self.protocol.expected.iter().map(|request| request.members().len()).collect()
    }

    fn end_connection(self) -> PendingDeletes {
        self.protocol.into_pending(Some(&Fault::new("broken")), self.now)
    }
}

fn names(commands: &[Vec<String>]) -> Vec<&str> {
    commands.iter().map(|words| &*words[0]).collect()
}

#[test]
fn counts_every_command_and_keeps_deletes_without_a_reply() {
    let mut connection = Connection::new();
    ["a", "b", "c"].into_iter().for_each(|name| connection.submit(extend(name, name)));
    ["a", "b"].into_iter().for_each(|name| connection.submit(release(name, name)));
    ["d", "e"].into_iter().for_each(|name| connection.submit(extend(name, name)));
    assert!(connection.protocol.is_unwritten());
    assert_eq!(connection.protocol.count(), 7);
    assert_eq!(connection.shape(), [3, 2, 2]);
    assert_eq!(connection.receive_text("*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"), None);
    assert_eq!(connection.shape(), [2, 2]);
    let deletes = connection.end_connection().take_all();
    assert_eq!(deletes.len(), 2);
}

#[test]
fn delete_that_was_sent_in_full_is_not_combined() {
    let mut in_full = Capabilities::default();
    in_full.set(Feature::Digests, false);
    let mut connection = Connection::supporting(in_full, 0, None);
    connection.submit(release("a", "a"));
    assert_eq!(names(&connection.written()), ["EVAL"]);
    let pending = connection.end_connection().take_all().into_iter().map(InFlight::without_caller);
    let mut next = Connection::new();
    pending.chain([release("b", "b")]).for_each(|delete| next.submit(delete));
    assert_eq!(names(&next.written()), ["EVAL", "EVALSHA"]);
}

#[test]
fn delete_of_an_unwritten_vote_is_not_pending() {
    let mut connection = Connection::new();
    let (vote, _reply) = heard(acquire("a", "a"));
    connection.submit(vote);
    connection.written();
    connection.submit(release("a", &full("a")));
    let (vote, _reply) = heard(acquire("b", "b"));
    connection.submit(vote);
    connection.submit(release("b", &full("b")));
    // Without a caller it is not sent at all.
    connection.submit(acquire("c", "c"));
    connection.submit(release("c", &full("c")));
    let deletes = connection.end_connection().take_all();
    assert_eq!(
        deletes.iter().map(|delete| delete.slot().unwrap()).collect::<Vec<_>>(),
        [slot("a")]
    );
}

#[test]
fn stops_batching_after_a_permanent_refusal() {
    let mut connection = Connection::new();
    let batch = |connection: &mut Connection| {
        ["a", "b"].into_iter().for_each(|name| connection.submit(heard(extend(name, name)).0));
        ["a", "b"].into_iter().for_each(|name| connection.submit(release(name, name)));
        connection.shape()
    };
    for (refusal, next) in [
        ("-OOM no\r\n", &[2, 2][..]),
        ("-ERR Error running script (call to f_0): -MISCONF no\r\n", &[2, 2]),
        ("-NOPERM no\r\n", &[1, 1, 2]),
    ] {
        assert_eq!(batch(&mut connection), [2, 2]);
        assert_eq!(connection.receive_text(refusal), None);
        // The releases. Both extends lost their callers.
        assert_eq!(connection.receive_text("*2\r\n$1\r\na\r\n$1\r\nb\r\n"), None);
        assert_eq!(batch(&mut connection), next, "{refusal}");
        let each = "$1\r\na\r\n$1\r\nb\r\n";
        let extended = if next.len() == 2 { format!("*2\r\n{each}") } else { each.to_owned() };
        assert_eq!(connection.receive_text(&format!("{extended}*2\r\n{each}")), None);
    }
}

#[test]
fn batches_only_reads_of_released_keys() {
    let mut connection = Connection::new();
    // Without a waiting caller, the release only undoes a vote.
    connection.submit(release("c", "c"));
    let mut replies = Vec::new();
    for name in ["a", "b"] {
        let (release, reply) = heard(release(name, name));
        connection.submit(release);
        replies.push(reply);
    }
    for name in ["a", "c", "d", "a", "b"] {
        let (acquire, reply) = heard(acquire(name, name));
        connection.submit(acquire);
        replies.push(reply);
    }
    assert_eq!(connection.shape(), [3, 1, 1, 1, 2]);
}

#[test]
fn loads_lost_scripts_and_repeats_the_command_once() {
    let mut connection = Connection::new();
    let (extend, mut reply) = heard(extend("a", "ours"));
    connection.submit(extend);
    let first = connection.written();
    assert_eq!(connection.receive_text("-NOSCRIPT no\r\n"), None);
    let again = connection.written();
    let count = scripts().len();
    assert!(again[..count].iter().all(|words| words[..2] == ["SCRIPT", "LOAD"]));
    assert_eq!(again[count..], first[..]);
    assert_eq!(connection.receive_text(&"+OK\r\n".repeat(count)), None);
    assert_eq!(connection.receive_text("-NOSCRIPT no\r\n"), None);
    assert!(connection.written().is_empty());
    assert!(matches!(reply.try_recv(), Ok(Ok(Value::ServerError(_)))));
}

#[test]
fn reply_of_another_command_ends_the_connection() {
    for reply in ["$6\r\ntheirs\r\n", "*2\r\n:1\r\n$6\r\ntheirs\r\n", "-READONLY no\r\n", "+OK\r\n"]
    {
        let mut connection = Connection::new();
        let (extend, mut result) = heard(extend("a", "ours"));
        connection.submit(extend);
        connection.written();
        assert!(connection.receive_text(reply).is_some(), "{reply}");
        assert!(result.try_recv().unwrap().is_err(), "{reply}");
        assert!(connection.receive_text("+OK\r\n").is_some(), "no command is left");
    }
}

#[test]
fn only_maps_of_clusters_may_be_long() {
    let part = "x".repeat(1_500_000);
    for (command, allowed) in [("CLUSTER", true), ("GETRANGE", false)] {
        let mut connection = Connection::new();
        let command = plain(redis::cmd(command).arg("SLOTS"), Purpose::Plain);
        connection.submit(InFlight::without_caller(command));
        connection.written();
        assert_eq!(connection.receive_text(&format!("$9000000\r\n{part}")).is_none(), allowed);
        assert!(connection.receive_text(&part.repeat(5)).is_some(), "longer than any map");
    }
}

#[test]
fn refused_delete_is_pending_and_sent_again_later() {
    let mut connection = Connection::new();
    connection.submit(release("a", "ours"));
    connection.written();
    assert!(connection.link.has_deletes());
    assert_eq!(connection.receive_text("-BUSY no\r\n"), None);
    assert!(!connection.link.has_deletes() && connection.link.has_pending_deletes(START));
    connection.now = START + Duration::from_secs(1);
    connection.protocol.retry_deletes(connection.now);
    connection.receive_text("");
    assert!(connection.link.has_deletes() && !connection.link.has_pending_deletes(START));
    assert_eq!(names(&connection.written()), ["CLIENT", "EVALSHA"]);
    assert_eq!(connection.receive_text("+OK\r\n$4\r\nours\r\n"), None);
    assert!(!connection.link.has_deletes() && connection.protocol.pending.is_empty());
}

#[test]
fn refused_deletes_are_sent_again_ever_less_often() {
    let mut connection = Connection::new();
    let (refused, deleted) = ("+OK\r\n-BUSY no\r\n", "+OK\r\n$1\r\na\r\n");
    connection.submit(release("a", "a"));
    connection.written();
    assert_eq!(connection.receive_text("-BUSY no\r\n"), None);
    let mut repeated = Vec::new();
    for second in 1..20 {
        connection.protocol.retry_deletes(START);
        if !connection.written().is_empty() {
            repeated.push(second);
            assert_eq!(connection.receive_text(if second == 15 { deleted } else { refused }), None);
        }
        if second == 15 {
            connection.submit(release("a", "a"));
            connection.written();
            assert_eq!(connection.receive_text("-BUSY no\r\n"), None);
        }
    }
    assert_eq!(repeated, [1, 3, 7, 15, 16, 18]);
}

#[test]
fn deletes_are_repeated_while_the_previous_connection_may_exist() {
    let mut connection = Connection::with(0, Some(START));
    let (release, mut reply) = heard(release("a", "ours"));
    connection.submit(release);
    connection.written();
    assert_eq!(connection.receive_text("$4\r\nours\r\n"), None);
    assert!(reply.try_recv().unwrap().is_ok());
    let mut repeated = Vec::new();
    for second in 1..30 {
        connection.now = START + Duration::from_secs(second);
        connection.protocol.retry_deletes(connection.now);
        if !connection.written().is_empty() {
            repeated.push(second);
            assert_eq!(connection.receive_text("+OK\r\n*2\r\n:0\r\n$4\r\nours\r\n"), None);
        }
    }
    assert_eq!(repeated, [1, 3, 7], "for as long as a key can live");
}

#[test]
fn replicas_confirm_a_grant_before_it_is_delivered() {
    let mut connection = Connection::with(1, None);
    let (first, mut reply) = heard(acquire("a", "a"));
    connection.submit(first);
    assert_eq!(names(&connection.written()), ["SET", "GETRANGE", "WAIT"]);
    let granted = format!("+OK\r\n$32\r\n{}\r\n", full("a"));
    assert_eq!(connection.receive_text(&granted), None);
    let (second, mut later) = heard(acquire("b", "b"));
    let timeout = second.command.timeout;
    connection.submit(second);
    assert_eq!(names(&connection.written()), ["SET", "GETRANGE"], "one request at a time");
    assert!(reply.try_recv().is_err());
    assert_eq!(connection.receive_text(":1\r\n"), None);
    assert!(reply.try_recv().unwrap().is_ok());
    assert!(!connection.link.is_unconfirmed(Duration::ZERO));
    assert_eq!(names(&connection.written()), ["WAIT"]);
    assert_eq!(connection.receive_text(&granted.replace("-a", "-b")), None);
    assert_eq!(connection.receive_text(":0\r\n"), None);
    assert!(later.try_recv().is_err(), "there is time for another request");
    assert_eq!(names(&connection.written()), ["WAIT"]);
    connection.now = START + TTL;
    assert_eq!(connection.receive_text(":0\r\n"), None);
    assert!(later.try_recv().unwrap().is_err());
    let is_unconfirmed = |time| connection.link.is_unconfirmed(time);
    assert!(is_unconfirmed(timeout), "no round waits for its next vote");
    assert!(!is_unconfirmed(timeout * 2), "unless it has more time");
}

#[test]
fn silent_server_is_detected_only_while_replies_are_outstanding() {
    let mut connection = Connection::new();
    connection.submit(InFlight::without_caller(crate::node::redis::commands::scripts::ping()));
    connection.written();
    let mut ticks = 0;
    while connection.protocol.count_silence().is_none() {
        ticks += 1;
        if ticks == 3 {
            connection.protocol.end_silence();
        }
    }
    assert_eq!(TICK * (ticks - 3), SILENCE + TICK);
    assert_eq!(connection.receive_text("+PONG\r\n"), None);
    assert!(connection.protocol.count_silence().is_none());
}

#[test]
fn idle_connection_is_probed_first() {
    let mut connection = Connection::new();
    connection.now = START + Duration::from_secs(60);
    connection.protocol.probe_if_idle(false, connection.now);
    assert!(connection.protocol.is_probing());
    assert_eq!(names(&connection.written()), ["PING"]);
    assert_eq!(connection.receive_text("+PONG\r\n"), None);
    assert!(!connection.protocol.is_probing() && !connection.link.is_idle(connection.now));
}

#[test]
fn first_run_id_stays_and_conflicts_fail_only_later_nodes() {
    let run_ids = RunIds::default();
    run_ids.enter("a", "", "one").unwrap();
    assert!(run_ids.enter("b", "", "one").unwrap_err().permanent().is_some());
    run_ids.enter("a", "", "one").unwrap();
    run_ids.enter("b", "", "two").unwrap();
    // It worked before, so the error is not about the options.
    assert!(run_ids.enter("b", "", "one").unwrap_err().permanent().is_none());
    run_ids.enter("a", "", "one").unwrap();
    run_ids.enter("a", "", "three").unwrap();
    run_ids.enter("b", "", "one").unwrap();
}

#[test]
fn clusters_may_not_share_a_server() {
    let run_ids = RunIds::default();
    run_ids.enter("a", "a:1", "one").unwrap();
    run_ids.enter("a", "a:2", "two").unwrap();
    // One server with two addresses.
    run_ids.enter("a", "a:3", "two").unwrap();
    assert!(run_ids.enter("b", "b:1", "two").unwrap_err().permanent().is_some());
    run_ids.enter("b", "b:1", "three").unwrap();
    assert!(run_ids.enter("b", "b:2", "one").unwrap_err().permanent().is_some());
}
