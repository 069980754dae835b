//! Compares the model of a server with a real one: the same random commands, and the same replies, TTLs and pushes.
//!
//! It is here and not among the tests that start servers, because the model is part of the core's unit tests. The test
//! takes the `redis-server` that it finds, or the server of `REDLOCK_TEST_SERVER` (`scripts/test-servers`). Without one
//! it does nothing, except in CI.

use std::time::SystemTime;

use fastrand::Rng;

use crate::node::{Operation, script, scripts};

use super::commands::Call;
use super::redis_process::{Connection, RealServer};
use super::resp::Reply;
use super::scripts_sides::readers;
use super::server::{EPOCH_US, Peer, Server};

const LOCKS: [&str; 3] = ["lock-1", "lock-2", "lock-3"];
const FENCES: [&str; 3] = ["fence-1", "fence-2", "fence-3"];
/// The set of readers and the turn of the first lock.
const SIDES: [&str; 2] = ["readers", "turn"];
const STEPS: u64 = 5_000;
/// `SLACK` of fencing, in µs.
const SLACK: u64 = 1_000_000;

/// Random commands. All TTLs differ by more than any step takes.
struct Commands {
    rng: Rng,
    ttls: Vec<u64>,
    /// Whether the server has `PEXPIRE ... GT`. Without it, `extend_many.lua` returns an error, and writes nothing.
    has_gt: bool,
}

impl Commands {
    fn new(seed: u64, has_gt: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut ttls: Vec<u64> = (0..2 * STEPS * 3).map(|at| 1_000_000 + at * 20_000).collect();
        rng.shuffle(&mut ttls);
        Self { rng, ttls, has_gt }
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.usize(..from.len())]
    }

    fn ttl(&mut self) -> String {
        self.ttls.pop().unwrap().to_string()
    }

    fn token(&mut self) -> String {
        self.pick(&["token-1", "token-1", "token-2", "token-3"]).to_owned()
    }

    /// A call of a script on these keys.
    fn call(operation: Operation, keys: &[&str], arguments: Vec<String>) -> Vec<String> {
        let begin =
            ["EVALSHA".to_owned(), script(operation).digest.clone(), keys.len().to_string()];
        let keys = keys.iter().map(|key| (*key).to_owned());
        begin.into_iter().chain(keys).chain(arguments).collect()
    }

    /// What random commands do rarely: a lower fence for a lease that has a higher one, and a reader in the turn of a
    /// writer that comes back to a free lock.
    fn rare(&mut self, now_us: u64) -> Vec<Vec<String>> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let fenced = [LOCKS[0], FENCES[0]];
        let [high, low] = [now_us + SLACK / 2, now_us + SLACK / 4].map(|fence| fence.to_string());
        let [first, second, third] = [(); 3].map(|()| self.ttl());
        let owner = || "token-1".to_owned();
        let none = || "0".to_owned();
        vec![
            words("SET lock-1 free NX PX 900000"),
            words("SCRIPT FLUSH"),
            Self::call(Operation::Acquire, &fenced, vec![owner(), first.clone()]),
            words("DEL lock-1 fence-1 readers turn"),
            Self::call(
                Operation::Acquire,
                &fenced,
                vec![owner(), first, high, none(), SLACK.to_string()],
            ),
            Self::call(Operation::Extend, &fenced, vec![owner(), second, none(), low]),
            words("DEL lock-1 fence-1"),
            words("SET turn b700000 NX PX 850000"),
            Self::call(
                Operation::AcquireRead,
                &[LOCKS[0], SIDES[0], SIDES[1]],
                vec![owner(), third, none(), "700000".to_owned(), "850000".to_owned()],
            ),
        ]
    }

    fn next(&mut self, now_us: u64) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let (key, count) = (self.pick(&LOCKS), self.rng.usize(1..=3));
        let (keys, token, ttl) = (&LOCKS[..count], self.token(), self.ttl());
        let fenced = self.rng.bool();
        let locks = || if fenced { [keys, &FENCES[..count]].concat() } else { keys.to_vec() };
        match self.rng.u8(..60) {
            25..=59 => self.next_of_sides(),
            0 => words(&["GET", key]),
            1 => words(&["GETRANGE", key, "0", "7"]),
            2 => words(&[&["MGET"], keys].concat()),
            3 => words(&[&["EXISTS"], keys].concat()),
            4 => words(&["PTTL", key]),
            5 => words(&[&["DEL"], keys].concat()),
            6 => words(&["PEXPIRE", key, &ttl]),
            7 | 8 => words(&["SET", key, &token, "NX", "PX", &ttl]),
            // Another program, which may store what no client would.
            9 if self.rng.bool() => words(&["SET", key, "foreign"]),
            9 => {
                let fence = self.pick(&["9007199254740992", "9007199254740991", "x", "1"]);
                words(&["SET", self.pick(&FENCES), fence])
            }
            10 => words(&["SCRIPT", "FLUSH"]),
            11 => words(&[&["DEL"], &FENCES[..]].concat()),
            12..=14 => {
                let mut arguments = vec![token, ttl];
                if fenced {
                    let proposed = now_us + self.rng.u64(..4 * SLACK) - 2 * SLACK;
                    let first = self.rng.bool();
                    let (proposed, least) = if first { (proposed, 0) } else { (0, proposed) };
                    arguments.extend([proposed, least, SLACK].map(|number| number.to_string()));
                }
                Self::call(Operation::Acquire, &locks(), arguments)
            }
            15 | 16 => {
                let mut arguments = vec![token, ttl, u8::from(self.rng.bool()).to_string()];
                if fenced {
                    arguments.push((now_us + self.rng.u64(..SLACK)).to_string());
                }
                Self::call(Operation::Extend, &locks(), arguments)
            }
            17 if !self.has_gt => words(&["EXISTS", key]),
            17 => {
                let each = keys.iter().flat_map(|_| [self.token(), self.ttl()]).collect();
                Self::call(Operation::ExtendMany, keys, each)
            }
            18 | 19 => {
                let mut arguments = vec![token];
                match self.rng.u8(..4) {
                    0 => arguments.push(ttl),
                    1 => arguments.extend([ttl, "1".to_owned()]),
                    2 => arguments.extend(["0".to_owned(), self.token()]),
                    _ => {}
                }
                Self::call(Operation::Release, keys, arguments)
            }
            20 => Self::call(
                Operation::ReleaseMany,
                keys,
                keys.iter().map(|_| self.token()).collect(),
            ),
            21..=23 => {
                let mut numbers = self.rng.choose_multiple(1..=LOCKS.len(), count);
                numbers.sort_unstable();
                let numbers = numbers.into_iter().map(|number| number.to_string());
                let arguments = [token, ttl].into_iter().chain(numbers).collect();
                Self::call(Operation::AcquireSlots, &LOCKS, arguments)
            }
            _ => Self::call(Operation::Inspect, &[key], Vec::new()),
        }
    }
}

impl Commands {
    /// A call of a script of a read/write lock. The window of a turn is longer than the test takes.
    fn next_of_sides(&mut self) -> Vec<String> {
        let ([set, turn], lock) = (SIDES, LOCKS[0]);
        let (token, ttl) = (self.token(), self.ttl());
        let window = self.pick(&["0", "700000", "800000"]).to_owned();
        let lasts = self.pick(&["850000", "950000"]).to_owned();
        match self.rng.u8(..60) {
            0..=18 => {
                let again = self.pick(&["0", "0", "1"]).to_owned();
                let arguments = vec![token, ttl, again, window, lasts];
                Self::call(Operation::AcquireRead, &[lock, set, turn], arguments)
            }
            19..=24 => Self::call(Operation::ExtendRead, &[lock, set], vec![token, ttl]),
            25..=40 => {
                let mut arguments = vec![token];
                if self.rng.bool() {
                    arguments.extend(["0".to_owned(), self.token()]);
                }
                Self::call(Operation::ReleaseRead, &[lock, set], arguments)
            }
            41..=52 => {
                let arguments = vec![token, ttl, window, lasts];
                Self::call(Operation::AcquireWrite, &[lock, turn], arguments)
            }
            53..=56 => vec!["DEL".to_owned(), turn.to_owned()],
            _ => vec!["DEL".to_owned(), lock.to_owned(), self.pick(&SIDES).to_owned()],
        }
    }
}

/// Whether replies are equal, except for times that differ by the duration of a step.
fn same(one: &Reply, other: &Reply, slack_ms: u64) -> bool {
    let near = |one: i64, other: i64, slack: u64| one == other || one.abs_diff(other) <= slack;
    match (one, other) {
        (Reply::Int(one), Reply::Int(other)) if *one > 1_000 => near(*one, *other, slack_ms),
        (Reply::Bulk(one), Reply::Bulk(other)) => {
            let fence = |text: &str| text.parse().ok().filter(|fence| *fence > 1_000_000_000);
            match (fence(one), fence(other)) {
                (Some(one), Some(other)) => near(one, other, slack_ms * 1000),
                _ => one == other,
            }
        }
        // Their words differ between the versions. Before Redis 7, a script wraps the errors of its commands.
        (Reply::Error(one), Reply::Error(other)) => {
            one.split(' ').next() == other.split(' ').next() || other.contains("running script")
        }
        (Reply::List(one), Reply::List(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| same(one, other, slack_ms))
        }
        _ => one == other,
    }
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

#[test]
fn model_replies_like_a_real_server() {
    let Some(mut real) = RealServer::start() else {
        assert!(std::env::var_os("CI").is_none(), "redis-server is missing");
        return;
    };
    let mut control = real.connect();
    let mut clients = [real.connect(), real.connect()];
    for client in &mut clients {
        client.request(&["HELLO", "3"]);
        assert_eq!(
            client.request(&["CLIENT", "TRACKING", "ON", "OPTOUT", "NOLOOP"]),
            Reply::Status("OK")
        );
    }
    control.request(&["HELLO", "3"]);
    let has_gt = control.request(&["PEXPIRE", "missing", "1", "GT"]) == Reply::Int(0);
    let begun = micros();
    let offset_us = i64::try_from(begun).unwrap() - i64::try_from(EPOCH_US).unwrap();
    let (mut model, mut commands) = (Server::new(0, offset_us), Commands::new(7, has_gt));
    let (mut slack_ms, mut granted) = (2, 0);
    let mut rare = commands.rare(micros()).into_iter();
    for step in 0..STEPS {
        let client = commands.rng.usize(..2);
        let untracked = commands.rng.u8(..4) == 0;
        let before = micros();
        let words = rare.next().unwrap_or_else(|| commands.next(before));
        let words: Vec<&str> = words.iter().map(|word| &**word).collect();
        if untracked {
            clients[client].request(&["CLIENT", "CACHING", "NO"]);
        }
        let fences = stored_fences(&mut control);
        let replied = clients[client].request(&words);
        slack_ms = slack_ms.max((micros() - before) / 1000 + 2);
        let peer: Peer = (client, client as u32);
        let now = (before - begun) * 1000;
        let mut call =
            Call { server: &mut model, peer, tracks: !untracked, now, pushes: Vec::new() };
        let expected = call.run(&words).unwrap_or(Reply::Status("OK"));
        let pushes = call.pushes;
        let context = format!("step {step}: {words:?}");
        if words[0] == "EVALSHA" {
            let context = format!("{context}: {replied:?}");
            fences_rise(&fences, &stored_fences(&mut control), &words, &replied, &context);
        }
        assert!(same(&expected, &replied, slack_ms), "{context}: {expected:?}, not {replied:?}");
        granted += u32::from(words[0] == "EVALSHA" && matches!(replied, Reply::Bulk(_)));
        for (client, connection) in clients.iter_mut().enumerate() {
            let mine = pushes.iter().filter(|((to, _), _)| *to == client);
            let mut mine: Vec<_> = mine.map(|(_, key)| format!("{:?}", Reply::bulk(key))).collect();
            mine.sort();
            // Redis 7.0 tracks all keys of a script with each read in it, so it may send more.
            let sent = connection.pushes();
            let is_sent = |key: &String| sent.contains(key);
            assert!(mine.iter().all(is_sent), "{context}: {client} gets {sent:?}, not {mine:?}");
        }
        if matches!(&replied, Reply::Error(error) if error.starts_with("NOSCRIPT")) {
            for script in scripts() {
                control.request(&["SCRIPT", "LOAD", &script.text]);
            }
            model.scripts = true;
        }
        compare_keys(&mut control, &mut model, now, (slack_ms, &context));
        compare_readers(&mut control, &mut model, (slack_ms, &context));
        // A turn ends at no other time than the model's.
        let words = ["PEXPIRE", SIDES[1], "900000"];
        let asked = micros();
        control.request(&words);
        slack_ms = slack_ms.max((micros() - asked) / 1000 + 2);
        let now = (asked - begun) * 1000;
        let (peer, pushes) = ((2, 2), Vec::new());
        Call { server: &mut model, peer, tracks: false, now, pushes }.run(&words);
        clients.iter_mut().for_each(|client| drop(client.pushes()));
    }
    assert!(granted > 100, "only {granted} scripts succeeded");
}

/// The fencing tokens that the real server has. A value that no client can have stored is `None`.
fn stored_fences(control: &mut Connection) -> Vec<Option<u64>> {
    let Reply::List(stored) = control.request(&[&["MGET"], &FENCES[..]].concat()) else { panic!() };
    stored.iter().map(number).collect()
}

fn number(reply: &Reply) -> Option<u64> {
    let Reply::Bulk(text) = reply else { return None };
    text.parse().ok()
}

/// No script lowers a fencing token, and a grant has one that is larger than all before. The comparison with the model
/// allows for the time that a step takes, so it does not see that.
fn fences_rise(
    before: &[Option<u64>],
    after: &[Option<u64>],
    words: &[&str],
    replied: &Reply,
    context: &str,
) {
    for (before, after) in before.iter().zip(after) {
        assert!(before.is_none() || after >= before, "{context}: {after:?} after {before:?}");
    }
    let Reply::List(parts) = replied else { return };
    let [Reply::Int(1), Reply::Int(_), granted, _] = &parts[..] else { return };
    let locks = words[2].parse::<usize>().unwrap() / 2;
    // A minimum raises what another node has granted.
    if words[words.len() - 2] == "0" {
        let largest = before[..locks].iter().max().unwrap();
        assert!(number(granted) > *largest, "{context}: not above {largest:?}");
    }
}

/// Compares the value and the TTL of each key. Fencing tokens that depend on the time are then equal.
fn compare_keys(
    control: &mut Connection,
    model: &mut Server,
    now: u64,
    (slack_ms, context): (u64, &str),
) {
    for key in LOCKS.iter().chain(&FENCES).chain(&SIDES[1..]) {
        let (value, left) = (control.request(&["GET", key]), control.request(&["PTTL", key]));
        let peer = (2, 2);
        let mut call = Call { server: model, peer, tracks: false, now, pushes: Vec::new() };
        let (known, known_left) = (call.get(key), call.pttl(key));
        let known = Reply::text(known);
        assert!(same(&known, &value, slack_ms), "{context}: {key} is {value:?}, not {known:?}");
        let known_left = Reply::Int(known_left);
        // The reads themselves take time.
        let slack_ms = slack_ms + 1_000;
        assert!(same(&known_left, &left, slack_ms), "{context}: {key} has {left:?} ms");
        if let (Reply::Bulk(value), Some(entry)) = (value, model.keys.get_mut(*key)) {
            entry.0 = value;
        }
    }
}

/// Compares the end of each reader, and the TTL of their set.
fn compare_readers(control: &mut Connection, model: &mut Server, (slack_ms, context): (u64, &str)) {
    let known = readers(model.owner(SIDES[0]));
    for token in ["token-1", "token-2", "token-3"] {
        let known = Reply::text(known.get(token).map(u64::to_string));
        let end = control.request(&["ZSCORE", SIDES[0], token]);
        assert!(same(&known, &end, slack_ms), "{context}: {token} ends at {end:?}, not {known:?}");
    }
}
