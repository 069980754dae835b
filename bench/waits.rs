//! Measures the cost of waiting and holding. `waits floor|take|contend|pairs|hold URL[,URL...] ARGUMENT...` prints one
//! JSON line or stamp per line. `bench/waits.py` starts the processes and combines the figures.

#![allow(clippy::cast_precision_loss, reason = "figures are printed")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use redlock::{Error, Redlock};

/// Nanoseconds of the clock that all processes of this machine share.
fn stamp() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the given struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn client(urls: &str) -> Result<Redlock, Error> {
    Redlock::builder(urls.split(',')).restart_guard(Duration::ZERO).build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(0);
    match arguments[0].as_str() {
        "floor" => floor(&arguments[1], number(2)),
        "take" => take(&arguments[1], number(2), number(3)).await?,
        "contend" => contend(&arguments[1], number(2)).await?,
        "pairs" => pairs(&arguments[1], number(2)).await?,
        "hold" => hold(&arguments[1], number(2), number(3)).await?,
        other => panic!("unknown: {other}"),
    }
    Ok(())
}

/// The minimum cost of a handoff over blocking sockets: one script deletes the key and pushes. That wakes another
/// client's blocked pop, which sets the key.
fn floor(url: &str, rounds: u64) {
    let place = url.trim_start_matches("redis://").to_owned();
    let connect = || {
        let stream = TcpStream::connect(&place).unwrap();
        stream.set_nodelay(true).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        move |command: &str, lines: usize| {
            (&stream).write_all(command.as_bytes()).unwrap();
            let (mut answers, mut line) = (BufReader::new(answers.get_ref()), String::new());
            for _ in 0..lines {
                answers.read_line(&mut line).unwrap();
            }
        }
    };
    let (waiter, holder) = (connect(), connect());
    let (told, taken) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..rounds {
            waiter("BLPOP bench-floor 0\r\n", 5);
            waiter("SET bench-key x NX PX 10000\r\n", 1);
            told.send(stamp()).unwrap();
        }
    });
    let release = "EVAL \"redis.call('del',KEYS[1]) redis.call('lpush',KEYS[2],'x')\" 2 bench-key bench-floor\r\n";
    let mut took: Vec<i64> = (0..rounds)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let begin = stamp();
            holder(release, 1);
            taken.recv().unwrap() - begin
        })
        .collect();
    took.sort_unstable();
    println!("{}", took[took.len() / 2]);
}

/// Each of the callers acquires the lock `rounds` times. Prints a stamp for each acquire and release.
async fn take(url: &str, callers: u64, rounds: u64) -> Result<(), Error> {
    let redlock = client(url)?;
    let lock = redlock.lock("handoff");
    lock.inspect().await?;
    println!("ready");
    let mut start = String::new();
    std::io::stdin().read_line(&mut start).unwrap();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                let mut stamps = Vec::new();
                for _ in 0..rounds {
                    let lease = lock.acquire().await.unwrap();
                    stamps.push(("A", stamp()));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    stamps.push(("R", stamp()));
                    lease.release().await.unwrap();
                }
                stamps
            })
        })
        .collect();
    for task in tasks {
        for (what, at) in task.await.unwrap() {
            println!("{what} {at}");
        }
    }
    Ok(())
}

/// One caller in each of several processes. Prints how often it acquired the lock within the time and how long it
/// waited.
async fn contend(url: &str, seconds: u64) -> Result<(), Error> {
    let redlock = client(url)?;
    let lock = redlock.lock("contend");
    lock.inspect().await?;
    println!("ready");
    let mut start = String::new();
    std::io::stdin().read_line(&mut start).unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let begin = Instant::now();
        let lease = lock.acquire().await?;
        println!("W {}", begin.elapsed().as_nanos());
        lease.release().await?;
    }
    Ok(())
}

/// Uncontended pairs for this many seconds, each timed.
async fn pairs(url: &str, seconds: u64) -> Result<(), Error> {
    let redlock = client(url)?;
    let lock = redlock.lock("pairs");
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let begin = Instant::now();
        lock.acquire().await?.release().await?;
        println!("W {}", begin.elapsed().as_nanos());
    }
    Ok(())
}

/// Holds and renews this many leases for this many seconds. Prints the cost to this process.
async fn hold(url: &str, count: u64, seconds: u64) -> Result<(), Error> {
    let redlock = client(url)?;
    redlock.lock("first").acquire().await?.release().await?;
    let empty = memory();
    let mut leases = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for number in 0..count {
        leases.push(redlock.lock(format!("held-{number}")).acquire().await?);
    }
    let (begin, used) = (cpu(), memory() - empty);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let lost = leases.iter().filter(|lease| !lease.is_held()).count();
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let (cpu, per) = (cpu() - begin, used as f64 / count as f64);
    println!(
        "{{\"cpu_s\": {cpu:.3}, \"kb_per_lease\": {per:.2}, \"lost\": {lost}, \"threads\": {threads}}}"
    );
    redlock.release_all().await?;
    Ok(())
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

fn cpu() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the given struct.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
