//! Parses and reads randomly changed replies: FUZZ of them (`make fuzz`), or 20,000 in a normal test run. A failing
//! reply is shrunk before it is shown.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use redis::{Value, ValueCodec};
use tokio_util::codec::Decoder;

use crate::node::redis::commands::reply::{
    echoes, extension, holder, owns, released, says_ours, sets, vote,
};
use crate::node::redis::io::endpoint::Endpoint;
use crate::node::{Extension, Fault, Vote};
use crate::text::shown;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const SECRET: &str = "s3cret-word";

/// The replies of a healthy server, and variants of them.
const CORRECT_REPLIES: [&str; 13] = [
    "*4\r\n:1\r\n:10000\r\n$0\r\n\r\n$32\r\n{token}\r\n",
    "*4\r\n:1\r\n:10000\r\n$16\r\n1700000000000000\r\n$32\r\n{token}\r\n",
    "*4\r\n:0\r\n:10000\r\n$0\r\n\r\n$32\r\n{token}\r\n",
    "*2\r\n:1\r\n$32\r\n{token}\r\n",
    "*2\r\n:-1\r\n$32\r\n{token}\r\n",
    "*3\r\n$32\r\n{token}\r\n:10000\r\n$32\r\n{token}\r\n",
    "+OK\r\n$32\r\n{token}\r\n",
    "_\r\n_\r\n",
    "$32\r\n{token}\r\n",
    "-ERR no such user as s3cret-word\r\n",
    ">2\r\n$10\r\ninvalidate\r\n*1\r\n$8\r\nlock:job\r\n",
    ">2\r\n$10\r\ninvalidate\r\n_\r\n",
    "%2\r\n+a\r\n:1\r\n+b\r\n#t\r\n",
];

/// Pieces that a change may insert.
const PIECES: [&[u8]; 20] = [
    b"\r\n",
    b"*",
    b"$",
    b":",
    b"-",
    b"+",
    b"_\r\n",
    b"%1\r\n",
    b"~3\r\n",
    b"|1\r\n",
    b">2\r\n",
    b"0",
    b"9",
    b"-1",
    b"18446744073709551616",
    b"9223372036854775807",
    b"=15\r\ntxt:",
    b"s3cret-word",
    b"\x1b[2J\xff\xe2\x80\xae",
    b",nan\r\n",
];

/// The possible changes of a reply, each at a separate position.
#[derive(Clone, Debug)]
enum Change {
    /// Replaces a byte, or flips one of its bits.
    Byte(u8),
    Bit(u8),
    Left,
    Put(&'static [u8]),
    Twice,
    Ended,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<u8>().prop_map(Change::Byte),
        (0..8_u8).prop_map(Change::Bit),
        Just(Change::Left),
        select(&PIECES[..]).prop_map(Change::Put),
        Just(Change::Twice),
        Just(Change::Ended),
    ]
}

/// Up to three replies of a server with up to four changes.
fn changed() -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<Index>(), 0..40_usize, change()), 0..5);
    (vec(select(&CORRECT_REPLIES[..]), 1..4), changes).prop_map(|(output, changes)| {
        let mut bytes = output.concat().replace("{token}", TOKEN).into_bytes();
        for (at, length, change) in changes {
            let from = at.index(bytes.len() + 1);
            let to = (from + length).min(bytes.len());
            match change {
                Change::Byte(byte) if from < bytes.len() => bytes[from] = byte,
                Change::Bit(bit) if from < bytes.len() => bytes[from] ^= 1 << bit,
                Change::Byte(_) | Change::Bit(_) => {}
                Change::Left => drop(bytes.drain(from..to)),
                Change::Put(piece) => drop(bytes.splice(from..from, piece.iter().copied())),
                Change::Twice => drop(bytes.splice(from..from, bytes[from..to].to_vec())),
                Change::Ended => bytes.truncate(to.max(1)),
            }
        }
        bytes
    })
}

fn server() -> Endpoint {
    Endpoint::parse(&format!("redis://:{SECRET}@127.0.0.1")).unwrap()
}

/// Checks the public text of an error.
fn check_error(fault: Fault, server: &Endpoint) -> Result<(), String> {
    let text = fault.redacted(|text| shown(&server.without_password(text))).to_string();
    let has_control =
        text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{202e}'));
    if has_control || text.contains(SECRET) || text.chars().count() > 500 {
        return Err(format!("an error shows {text:?}"));
    }
    Ok(())
}

fn contains(bytes: &[u8], piece: &str) -> bool {
    bytes.windows(piece.len()).any(|window| window == piece.as_bytes())
}

/// Whether these bytes are read as the number 1, with optional blanks around it.
fn reports_success(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut numbers = text.split("\r\n").filter_map(|line| line.rsplit(':').next());
    numbers.any(|number| number.trim().parse() == Ok(1))
}

fn read_reply(value: &Value, bytes: &[u8], server: &Endpoint) -> Result<(), String> {
    let (echoed, exact) = (echoes(value, TOKEN), format!("{TOKEN}\r"));
    if echoed && !matches!(value, Value::ServerError(_)) && !contains(bytes, &exact) {
        return Err("an echo that the reply does not contain".into());
    }
    let granted = echoed && matches!(vote(value), Ok(Vote::Granted(_)));
    if granted && !reports_success(bytes) {
        return Err("a grant that the reply does not contain".into());
    }
    if owns(value) && *value == Value::BulkString(TOKEN.into()) && !contains(bytes, &exact) {
        return Err("an owner that the reply does not contain".into());
    }
    let whole = says_ours(value, TOKEN) && !matches!(value, Value::ServerError(_));
    let extended = extension(value) == Ok(Extension::Extended);
    if whole && (extended || released(value) == Ok(true)) && !contains(bytes, &exact) {
        return Err("a release or extension that the reply does not contain".into());
    }
    let _ = sets(value);
    let faults =
        [vote(value).err(), extension(value).err(), released(value).err(), holder(value).err()];
    faults.into_iter().flatten().try_for_each(|fault| check_error(fault, server))
}

/// Reads everything in these bytes.
fn read_all(bytes: &[u8], server: &Endpoint) -> Result<(), String> {
    let (mut codec, mut unread) = (ValueCodec::default(), BytesMut::from(bytes));
    while let Ok(Some(value)) = codec.decode(&mut unread) {
        read_reply(&value, bytes, server)?;
    }
    Ok(())
}

/// Resident memory in bytes, if the system reports it.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).map_or(0, |pages| pages.parse::<usize>().unwrap_or(0) * 4096)
}

/// Runs in a separate process, so that the memory of other tests does not count.
#[test]
fn mutated_replies_are_never_misread() {
    const ALONE: &str = "REDLOCK_TEST_FUZZ_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return change_and_read();
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let name = format!("{module}::mutated_replies_are_never_misread");
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(alone.status.success(), "{output}{}", String::from_utf8_lossy(&alone.stderr));
    let counted = output.lines().find(|line| line.contains(" replies, "));
    println!("{}", counted.expect("the number of replies"));
}

fn change_and_read() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let (most, seed) = (number("FUZZ").unwrap_or(20_000), number("SEED").unwrap_or(1));
    let (server, before) = (server(), memory());
    let config = Config {
        cases: most,
        rng_seed: RngSeed::Fixed(seed.into()),
        failure_persistence: None,
        ..Config::default()
    };
    // A panic is a failure like any other, and its input is shrunk too.
    let outcome = TestRunner::new(config).run(&changed(), |bytes| {
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        read_all(&bytes, &server)
            .map_err(|what| TestCaseError::fail(format!("{what}: {:?}", text())))
    });
    outcome.unwrap_or_else(|failure| panic!("SEED={seed}: {failure}"));
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    println!("{most} replies, {} KiB more memory", grown >> 10);
}
