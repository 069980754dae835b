//! Another executor: the futures of the library run on any executor. Its I/O runs on a separate thread.

use redlock::{Error, Redlock};

fn main() -> Result<(), Error> {
    smol::block_on(async {
        let client = Redlock::from_env()?;
        let lock = client.lock("job");
        let both = [1, 2].map(|number| {
            let lock = lock.clone();
            smol::spawn(async move {
                lock.using(async |_| {
                    println!("{number} begins");
                    smol::Timer::after(std::time::Duration::from_millis(50)).await;
                    println!("{number} ends");
                })
                .await
            })
        });
        for task in both {
            task.await?;
        }
        Ok(())
    })
}
