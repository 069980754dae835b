//! The core: acquire and release, one after the other: awaited, or with `blocking` without a runtime. `pair PORT PAIRS [blocking]` prints the
//! median microseconds of a pair.

use redlock::{Error, Redlock};
use std::time::{Duration, Instant};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let pairs: usize = arguments[2].parse().expect("PAIRS");
    let client = Redlock::builder([format!("redis://127.0.0.1:{}", arguments[1])]).build()?;
    let lock = client.lock("bench");
    let mut took = Vec::with_capacity(pairs);
    if arguments.get(3).is_some_and(|way| way == "blocking") {
        // A thread outside of the runtime, as in a program that has none.
        took = std::thread::spawn(move || {
            timed(pairs, || lock.acquire_blocking()?.release_blocking())
        })
        .join()
        .expect("no panic")?;
    } else {
        for _ in 0..pairs {
            let begin = Instant::now();
            lock.acquire().await?.release().await?;
            took.push(begin.elapsed());
        }
    }
    took.sort_unstable();
    println!("{:.2}", took[pairs / 2].as_secs_f64() * 1e6);
    Ok(())
}

fn timed(pairs: usize, pair: impl Fn() -> Result<(), Error>) -> Result<Vec<Duration>, Error> {
    let once = |_| {
        let begin = Instant::now();
        pair().map(|()| begin.elapsed())
    };
    (0..pairs).map(once).collect()
}
