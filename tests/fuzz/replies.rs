//! Replies that were changed at random, through the parser and whatever reads them: FUZZ of them (`make fuzz`), 100,000 in
//! every test run. What fails is made smaller before it is shown.

use bytes::BytesMut;
use fastrand::Rng;
use redis::{Value, ValueCodec};
use tokio_util::codec::Decoder;

use super::super::endpoint::Endpoint;
use super::super::{Fault, Vote};
use super::{count, echoes, extension, holder, owns, released, sets, vote};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const SECRET: &str = "s3cret-word";

/// What a server says when it is well, and what it may say instead.
const POLITE: [&str; 12] = [
    "*4\r\n:1\r\n:10000\r\n$0\r\n\r\n$32\r\n{token}\r\n",
    "*4\r\n:1\r\n:10000\r\n$16\r\n1700000000000000\r\n$32\r\n{token}\r\n",
    "*4\r\n:0\r\n:10000\r\n$0\r\n\r\n$32\r\n{token}\r\n",
    "*2\r\n:1\r\n$32\r\n{token}\r\n",
    "*2\r\n:-1\r\n$32\r\n{token}\r\n",
    "*3\r\n$32\r\n{token}\r\n:10000\r\n$32\r\n{token}\r\n",
    "+OK\r\n$32\r\n{token}\r\n",
    "_\r\n_\r\n",
    "-ERR no such user as s3cret-word\r\n",
    ">2\r\n$10\r\ninvalidate\r\n*1\r\n$8\r\nlock:job\r\n",
    ">2\r\n$10\r\ninvalidate\r\n_\r\n",
    "%2\r\n+a\r\n:1\r\n+b\r\n#t\r\n",
];

/// What a change may put in.
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

fn changed(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..rng.usize(1..4) {
        text.push_str(POLITE[rng.usize(..POLITE.len())]);
    }
    let mut bytes = text.replace("{token}", TOKEN).into_bytes();
    for _ in 0..rng.usize(0..5) {
        let (at, other) = (rng.usize(..=bytes.len()), rng.usize(..=bytes.len()));
        let (from, to) = (at.min(other), at.max(other).min(at.min(other) + 40));
        match rng.u8(..6) {
            0 if from < bytes.len() => bytes[from] = rng.u8(..),
            1 if from < bytes.len() => bytes[from] ^= 1 << rng.u8(..8),
            2 => drop(bytes.drain(from..to)),
            3 => drop(bytes.splice(from..from, PIECES[rng.usize(..PIECES.len())].iter().copied())),
            4 => {
                let again = bytes[from..to].to_vec();
                bytes.splice(from..from, again);
            }
            _ => bytes.truncate(to.max(1)),
        }
    }
    bytes
}

fn server() -> Endpoint {
    Endpoint::parse(&format!("redis://:{SECRET}@127.0.0.1")).unwrap()
}

/// What everybody may see of a fault.
fn seen(fault: Fault, server: &Endpoint) -> Result<(), String> {
    let text = server.redact_fault(fault).to_string();
    let obeyed = text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{202e}'));
    if obeyed || text.contains(SECRET) || text.chars().count() > 500 {
        return Err(format!("a fault says {text:?}"));
    }
    Ok(())
}

fn contains(bytes: &[u8], piece: &str) -> bool {
    bytes.windows(piece.len()).any(|window| window == piece.as_bytes())
}

/// The number 1, as whoever reads it takes it: with blanks around it, too.
fn says_one(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut numbers = text.split("\r\n").filter_map(|line| line.rsplit(':').next());
    numbers.any(|number| number.trim().parse() == Ok(1))
}

fn read(value: &Value, bytes: &[u8], server: &Endpoint) -> Result<(), String> {
    let (echoed, exact) = (echoes(value, TOKEN), format!("{TOKEN}\r"));
    if echoed && !matches!(value, Value::ServerError(_)) && !contains(bytes, &exact) {
        return Err("an echo that was not said".into());
    }
    let granted = echoed && matches!(vote(value), Ok(Vote::Granted(_)));
    if granted && !says_one(bytes) {
        return Err("a grant that was not said".into());
    }
    if owns(value) && *value == Value::BulkString(TOKEN.into()) && !contains(bytes, &exact) {
        return Err("an owner that was not said".into());
    }
    let _ = sets(value);
    let faults = [
        vote(value).err(),
        extension(value).err(),
        released(value).err(),
        count(value).err(),
        holder(value).err(),
    ];
    faults.into_iter().flatten().try_for_each(|fault| seen(fault, server))
}

/// What is wrong with how these bytes are taken, if anything is.
fn wrong(bytes: &[u8], server: &Endpoint) -> Option<String> {
    let read_all = || {
        let (mut codec, mut unread) = (ValueCodec::default(), BytesMut::from(bytes));
        while let Ok(Some(value)) = codec.decode(&mut unread) {
            read(&value, bytes, server)?;
        }
        Ok::<(), String>(())
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read_all));
    outcome.unwrap_or_else(|_| Err("a panic".into())).err()
}

/// The least that is still wrong: without whatever can be left out.
fn smaller(mut bytes: Vec<u8>, server: &Endpoint) -> Vec<u8> {
    let mut size = bytes.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < bytes.len() {
            let mut fewer = bytes.clone();
            fewer.drain(at..(at + size).min(bytes.len()));
            if wrong(&fewer, server).is_some() { bytes = fewer } else { at += size }
        }
        size /= 2;
    }
    bytes
}

/// Resident memory in bytes, where the system tells.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).map_or(0, |pages| pages.parse::<usize>().unwrap_or(0) * 4096)
}

/// In a process of its own: what other tests need is no memory of these replies.
#[test]
fn changed_replies_are_never_taken_for_more_than_they_say() {
    const ALONE: &str = "REDLOCK_TEST_FUZZ_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return change_and_read();
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let name = format!("{module}::changed_replies_are_never_taken_for_more_than_they_say");
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(alone.status.success(), "{said}{}", String::from_utf8_lossy(&alone.stderr));
    let counted = said.lines().find(|line| line.contains(" replies, "));
    println!("{}", counted.expect("the count of what was read"));
}

fn change_and_read() {
    let most = std::env::var("FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000_u64);
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1_u64);
    let (server, before) = (server(), memory());
    let mut rng = Rng::with_seed(seed);
    for number in 0..most {
        let bytes = changed(&mut rng);
        if let Some(what) = wrong(&bytes, &server) {
            let least = smaller(bytes, &server);
            panic!("{what}: reply {number} of SEED={seed}: {:?}", String::from_utf8_lossy(&least));
        }
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    println!("{most} replies, {} KiB more memory", grown >> 10);
}
