//! One node of three sends random replies for `FUZZ_S` seconds (`make fuzz`), or for 3 s in a normal test run. It
//! cannot grant a lock alone, end a lease, delay a call beyond its deadline, fill the memory or expose a password.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redlock::{Redlock, Result};

use crate::fake::command;
use crate::support::millis;

/// Pseudo-random numbers that are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end.max(1)
    }
}

static REPLIES: AtomicUsize = AtomicUsize::new(0);
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Speaks the Redis protocol, but only approximately after the handshake.
fn rogue_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    crate::support::spawn_helper(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || {
                serve_random_replies(stream, Random(number as u64 * 7919 + 1))
            });
        }
    });
    format!("redis://user:s3cret-word@127.0.0.1:{port}")
}

fn serve_random_replies(mut stream: TcpStream, mut random: Random) -> Option<()> {
    let mut asked = std::io::BufReader::new(stream.try_clone().ok()?);
    loop {
        let words = command(&mut asked)?;
        let trial = words.iter().any(|word| word.contains("redlock-rights"));
        let echo = words.get(4).or(words.get(3)).map_or("", String::as_str);
        let bulk = format!("${}\r\n{echo}\r\n", echo.len());
        let answer = match words[0].as_str() {
            "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".into(),
            "INFO" => "$0\r\n\r\n".into(),
            "SCRIPT" => "$2\r\nok\r\n".into(),
            "EVALSHA" if !trial => format!("*4\r\n:1\r\n:60000\r\n$0\r\n\r\n{bulk}"),
            "GET" => "$-1\r\n".into(),
            _ => "+OK\r\n".to_owned(),
        };
        let mut bytes = answer.into_bytes();
        if words[0] == "EVALSHA" && !trial {
            REPLIES.fetch_add(1, Ordering::Relaxed);
            change(&mut bytes, &mut random);
        }
        stream.write_all(&bytes).ok()?;
    }
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(10) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, *b"s3cret-word\r\n")),
        3 => *bytes = b"-WRONGTYPE s3cret-word \x1b[2J\r\n".to_vec(),
        4 => *bytes = format!("-{} s3cret-word\r\n", "x".repeat(random.below(5000))).into_bytes(),
        5 => {
            // Sends many pushes, for single keys and for all.
            REPLIES.fetch_add(2000, Ordering::Relaxed);
            let key = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$9\r\nlock:kept\r\n".repeat(1000);
            let all = b">2\r\n$10\r\ninvalidate\r\n_\r\n".repeat(1000);
            drop(bytes.splice(0..0, [key, all].concat()));
        }
        6 => {
            let again = bytes.clone();
            bytes.extend(again);
        }
        7 => {
            *bytes =
                b"*4\r\n:1\r\n:60000\r\n$19\r\n9223372036854775807\r\n$5\r\nother\r\n".to_vec();
        }
        _ => {}
    }
}

fn rss() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

async fn bounded<T: std::fmt::Debug>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let outcome = tokio::time::timeout(millis(6000), call).await.expect("an outcome in time");
    if let Err(error) = &outcome {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(!error.to_string().contains(char::is_control), "{error}");
    }
    outcome
}

async fn acquire_in_vain(redlock: Redlock, over: Arc<AtomicBool>) {
    let taken = redlock.lock("taken").wait(Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let granted = bounded(taken.acquire()).await;
        assert!(granted.is_err(), "granted by one node of three: {granted:?}");
        let tried = bounded(taken.try_acquire()).await;
        assert!(!matches!(tried, Ok(Some(_))), "granted by one node of three");
        let seen = bounded(taken.inspect()).await;
        assert!(seen.is_err() || seen.as_ref().is_ok_and(|seen| seen.held), "{seen:?}");
        assert!(bounded(taken.attach("token")).await.is_err());
    }
}

#[tokio::test]
async fn random_replies_of_one_node_change_nothing() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        hook(info);
    }));
    let seconds = std::env::var("FUZZ_S").map_or(3, |text| text.parse().unwrap());
    let honest = ["memory://fuzz-a".to_owned(), "memory://fuzz-b".to_owned()];
    let other = Redlock::builder(honest.clone()).restart_guard(Duration::ZERO).build().unwrap();
    let _taken = other.lock("taken").acquire().await.unwrap();
    let all = [honest.to_vec(), vec![rogue_server()]].concat();
    let client = || Redlock::builder(all.clone()).restart_guard(Duration::ZERO).build().unwrap();
    let clients: Vec<Redlock> = (0..16).map(|_| client()).collect();
    let kept = clients[0].lock("kept").ttl(millis(2000)).acquire().await.unwrap();
    let (before, over) = (rss(), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = clients
        .iter()
        .map(|one| tokio::spawn(acquire_in_vain(one.clone(), Arc::clone(&over))))
        .collect();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        assert!(kept.is_held(), "{:?}", kept.lost_reason());
        let _ = bounded(kept.extend(millis(2000))).await;
        tokio::time::sleep(millis(20)).await;
        let grown = rss().saturating_sub(before);
        // Each of 16 clients keeps up to 10,000 deletes that the broken node refuses, and retries them.
        assert!(grown < 192 << 20, "{grown} bytes more");
    }
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    assert!(kept.is_held());
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    println!("{} replies and pushes", REPLIES.load(Ordering::Relaxed));
}
