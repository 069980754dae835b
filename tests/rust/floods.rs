//! Servers that never stop sending. Each causes an error for its own client and affects no other.

use crate::fake::{Fake, rows};
use crate::replies::{client, none, patience, verdict};
use crate::support::{eventually, millis};

#[tokio::test]
async fn endless_reply_starves_no_client_and_is_disconnected() {
    let (calm, floods) = rows();
    let well = client(&calm[0], &Fake::start(&calm[0], false));
    let mut fakes = Vec::new();
    for row in &floods {
        let fake = Fake::start(row, true);
        let redlock = client(row, &fake);
        let beside = async {
            for number in 0..10 {
                let lock = well.lock(format!("{}-{number}", row.about));
                lock.try_acquire().await.unwrap().unwrap().into_handle().detach();
                tokio::time::sleep(millis(30)).await;
            }
        };
        let lock = redlock.lock("job");
        let said = verdict(row, &redlock, (&row.cause, patience(row)), lock.try_acquire());
        let (said, ()) = tokio::join!(said, beside);
        none([said]);
        fakes.push((row, fake));
    }
    // The clients are closed. Their pending deletes stay for one TTL.
    for (row, fake) in fakes {
        let what = format!("{}: a client that is gone closes its connection", row.about);
        eventually(&what, || fake.connections() <= 1).await;
    }
}
