//! 64 tasks on 64 names: `tasks PORT SECONDS` prints pairs per second. What the core alone can do, for the bindings.

use futures_util::future::join_all;
use redlock::{Error, Redlock};
use std::cell::Cell;
use std::time::{Duration, Instant};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let seconds: f64 = arguments[2].parse().expect("SECONDS");
    let client = Redlock::builder([format!("redis://127.0.0.1:{}", arguments[1])]).build()?;
    client.lock("bench").acquire().await?.release().await?; // connects
    let done = Cell::new(0_u32);
    let begin = Instant::now();
    let end = begin + Duration::from_secs_f64(seconds);
    let task = |number: usize| {
        let (lock, done) = (client.lock(format!("bench-{number}")), &done);
        async move {
            while Instant::now() < end {
                lock.acquire().await.expect("a lease").release().await.expect("released");
                done.set(done.get() + 1);
            }
        }
    };
    join_all((0..64).map(task)).await;
    println!("{:.0}", f64::from(done.get()) / begin.elapsed().as_secs_f64());
    Ok(())
}
