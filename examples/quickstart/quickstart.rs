//! The README's example in Rust.

use redlock::{Error, Redlock};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = Redlock::builder(["memory://"]).build()?; // your server: redis://127.0.0.1:6379

    let lock = client.lock("orders:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(5));
    let lease = lock.acquire().await?;
    // Renewed in the background until it is released or dropped.
    println!("holding {}", lease.key());
    lease.ensure_held()?; // fails with kind Lost if the lease has ended

    lease.release().await?;
    println!("released");
    Ok(())
}
