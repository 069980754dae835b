//! The core: acquire and release, awaited one after the other. `pair PORT PAIRS` prints the median microseconds of a pair.

use redlock::{Error, Redlock};
use std::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let pairs: usize = arguments[2].parse().expect("PAIRS");
    let client = Redlock::builder([format!("redis://127.0.0.1:{}", arguments[1])]).build()?;
    let lock = client.lock("bench");
    let mut took = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        let begin = Instant::now();
        lock.acquire().await?.release().await?;
        took.push(begin.elapsed());
    }
    took.sort_unstable();
    println!("{:.2}", took[pairs / 2].as_secs_f64() * 1e6);
    Ok(())
}
