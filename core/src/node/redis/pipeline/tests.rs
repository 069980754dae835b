//! Tests which commands are sent together, and how replies are assigned to them.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use redis::{Value, cmd};
use tokio::sync::oneshot;

use super::Pipeline;
use super::gathering::{Gathering, Joint};
use super::together::{Group, Question, has_long};
use crate::node::redis::commands::{acquire_script, attempt, extend_script, release_script};
use crate::node::redis::in_flight::InFlight;
use crate::node::redis::script::{EXTEND_MANY, RELEASE_MANY, scripts};
use crate::node::{Claim, Fencing, VoteParams};

const TTL: Duration = Duration::from_secs(10);

fn claim(name: &str, token: &str) -> Claim {
    let fences = Arc::from([format!("{name}:fence")]);
    Claim { keys: Arc::from([name.to_owned()]), fences, token: token.into() }
}

fn extend(name: &str, token: &str) -> InFlight {
    let params = VoteParams::later(TTL, TTL, Fencing::Off);
    InFlight::unheard(extend_script(&claim(name, token), params, false))
}

fn release(name: &str, token: &str) -> InFlight {
    InFlight::unheard(release_script(&claim(name, token), TTL, None))
}

fn acquire(name: &str, token: &str) -> InFlight {
    let params = VoteParams { first: true, ..VoteParams::later(TTL, TTL, Fencing::Off) };
    InFlight::unheard(attempt(&claim(name, &full(token)), params))
}

/// Extends the token to the usual length.
fn full(token: &str) -> String {
    format!("{token:->32}")
}

fn place(in_flight: &InFlight) -> Option<usize> {
    Joint::of(in_flight).map(|joint| joint.kind.at)
}

fn group<const N: usize>(members: [InFlight; N]) -> (Group, Vec<u8>) {
    let (mut gathering, mut unsent) = (Gathering::default(), BytesMut::from("before"));
    for member in members {
        let joint = Joint::of(&member).unwrap();
        gathering.add(member, joint);
    }
    let Some(Question::Together(group)) = gathering.take(&mut unsent) else { panic!("one") };
    assert_eq!(group.length + 6, unsent.len());
    (group, unsent[6..].to_vec())
}

#[test]
fn special_commands_are_not_batched() {
    for ask in [acquire, extend, release] {
        let together = place(&ask("a", "ours"));
        assert!(together.is_some() && place(&ask("\u{e9}\r\n$1", "ours")) == together);
        let mut again = ask("a", "ours");
        again.again = true;
        assert_eq!(place(&again), None);
        let mut untracked = ask("a", "ours");
        untracked.command.untracked = true;
        assert_eq!(place(&untracked), None);
    }
    let (one, plain) = (claim("a", "ours"), VoteParams::later(TTL, TTL, Fencing::Off));
    let fenced = VoteParams { fencing: Fencing::AtLeast(7), ..plain };
    let two = Claim { keys: Arc::from(["a", "b"].map(String::from)), ..one.clone() };
    for command in [
        extend_script(&one, plain, true),
        extend_script(&one, fenced, false),
        extend_script(&two, plain, false),
        release_script(&two, TTL, None),
        release_script(&one, TTL, Some(TTL)),
        acquire_script(&one, plain, false),
    ] {
        assert_eq!(place(&InFlight::unheard(command)), None);
    }
}

#[test]
fn batch_script_has_keys_before_arguments() {
    let members = [extend("a", "ours"), extend("b\r\n", "theirs"), extend("", "x")];
    let mut expected = cmd("EVALSHA");
    expected.arg(&scripts()[EXTEND_MANY].digest).arg(3).arg(&["a", "b\r\n", ""]);
    expected.arg(&["ours", "10000", "theirs", "10000", "x", "10000"]);
    assert_eq!(group(members).1, expected.get_packed_command());
    let members = [release("a", "ours"), release("b\r\n", "theirs"), release("", "x")];
    let mut expected = cmd("EVALSHA");
    expected.arg(&scripts()[RELEASE_MANY].digest).arg(3).arg(&["a", "b\r\n", ""]);
    expected.arg(&["ours", "theirs", "x"]);
    assert_eq!(group(members).1, expected.get_packed_command());
}

#[test]
fn batched_attempts_share_one_mget() {
    let (_, bytes) = group([acquire("a", "ours"), acquire("b\r\n", "theirs")]);
    let mut expected = Vec::new();
    for (key, token) in [("a", "ours"), ("b\r\n", "theirs")] {
        let set = cmd("SET").arg(&[key, &full(token), "NX", "PX", "10000"]).get_packed_command();
        expected.extend(set);
    }
    expected.extend(cmd("MGET").arg(&["a", "b\r\n"]).get_packed_command());
    assert_eq!(bytes, expected);
}

#[test]
fn batched_attempt_gets_its_set_reply_and_owner() {
    let (mut both, _) = group([acquire("a", "ours"), acquire("b", "theirs")]);
    for set in [true, false] {
        both.next().unwrap().set = Some(set);
    }
    assert!(both.next().is_none());
    assert_eq!(both.members[0].set.zip(both.members[1].set), Some((true, false)));
    let owners = [Value::BulkString("ours".into()), Value::Nil];
    assert_eq!(both.shares(&mut Value::Array(owners.to_vec())).as_deref(), Some(&owners[..]));
    assert!(both.shares(&mut Value::Array(vec![Value::Nil, Value::Okay])).is_none());
    assert!(!has_long(&owners) && has_long(&[Value::BulkString(vec![0; 1025])]));
}

#[test]
fn each_batch_reply_is_its_token_or_nil() {
    let (both, _) = group([extend("a", "ours"), extend("b", "theirs")]);
    let text = |text: &str| Value::BulkString(text.into());
    let read = |shares: &[Value]| both.shares(&mut Value::Array(shares.to_vec()));
    let each = [text("ours"), text("theirs")];
    assert_eq!(read(&each).as_deref(), Some(&each[..]));
    let one = [Value::Nil, text("theirs")];
    assert_eq!(read(&one).as_deref(), Some(&one[..]));
    for other in [
        &[text("theirs"), text("ours")][..],
        &[text("ours")],
        &[text("ours"), text("theirs"), Value::Nil],
        &[text("ours"), Value::Int(1)],
        &[],
    ] {
        assert_eq!(read(other), None, "{other:?}");
    }
    assert_eq!(both.shares(&mut text("ours")), None);
}

#[test]
fn counts_every_command_and_returns_unsent_ones() {
    let mut pipeline = Pipeline::new(true);
    ["a", "b", "c"].into_iter().for_each(|name| pipeline.add(extend(name, name), false));
    assert!(pipeline.is_open() && pipeline.is_unwritten());
    ["a", "b"].into_iter().for_each(|name| pipeline.add(release(name, name), false));
    ["d", "e"].into_iter().for_each(|name| pipeline.add(extend(name, name), false));
    assert_eq!((pipeline.counts(), pipeline.open().count()), ((7, 0), 7));
    assert!(matches!(pipeline.next(), Some(Question::Together(group)) if group.members.len() == 3));
    assert_eq!(pipeline.counts(), (7, 3));
    assert!(matches!(pipeline.next(), Some(Question::Together(group)) if group.members.len() == 2));
    let left: Vec<_> = pipeline.end().collect();
    assert!(left.len() == 2 && left.iter().all(|(_, sent)| !sent));
    assert!(!pipeline.is_open());
}

#[test]
fn stops_batching_after_a_refusal() {
    let mut pipeline = Pipeline::new(true);
    pipeline.stop_gathering(&extend("a", "a"));
    ["a", "b"].into_iter().for_each(|name| pipeline.add(extend(name, name), false));
    ["a", "b"].into_iter().for_each(|name| pipeline.add(release(name, name), false));
    pipeline.add(extend("c", "c"), false);
    for _ in 0..2 {
        assert!(matches!(pipeline.next(), Some(Question::Alone(_))));
    }
    assert!(matches!(pipeline.next(), Some(Question::Together(_))));
}

#[test]
fn batches_only_reads_of_released_keys() {
    let mut pipeline = Pipeline::new(true);
    // Without a waiting caller, the release only undoes a vote.
    pipeline.add(release("c", "c"), false);
    let mut listening = Vec::new();
    for name in ["a", "b"] {
        let (answer, listens) = oneshot::channel();
        let command = release_script(&claim(name, name), TTL, None);
        pipeline.add(InFlight::new(command, answer), false);
        listening.push(listens);
    }
    ["a", "c", "d", "a", "b"].into_iter().for_each(|name| pipeline.add(acquire(name, name), false));
    pipeline.add(extend("a", "a"), true);
    let shape: Vec<usize> =
        std::iter::from_fn(|| pipeline.next()).map(|next| next.members().len()).collect();
    assert_eq!(shape, [3, 1, 1, 1, 2]);
}
