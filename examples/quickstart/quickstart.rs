//! The README's example in Rust.

use redlock::{Error, Redlock};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // A lock in this process, for first steps. A real one: redis://127.0.0.1:6379
    let client = Redlock::builder(["memory://"]).build()?;

    // Describes the lock; nothing is sent yet.
    let lock = client.lock("orders:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(5));

    // Holds it until released: renewed in the background, released on drop at the latest.
    let lease = lock.acquire().await?;
    println!("holding {}", lease.key());

    // Fails with kind Lost when the lease has ended: ask before you write.
    lease.ensure_held()?;

    lease.release().await?;
    println!("released");
    Ok(())
}
