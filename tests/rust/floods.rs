//! Servers that never stop sending. Each causes an error for its own client and affects no other.

use crate::fake::{Fake, rows};
use crate::replies::{assert_none, client, time_limit, verdict};
use crate::support::{eventually, millis};

#[tokio::test]
async fn endless_reply_starves_no_client_and_is_disconnected() {
    let (calm, floods) = rows();
    let healthy = client(&calm[0], &Fake::start(&calm[0], false));
    let mut fakes = Vec::new();
    for row in &floods {
        let fake = Fake::start(row, true);
        let redlock = client(row, &fake);
        let other_client = async {
            for number in 0..10 {
                let lock = healthy.lock(format!("{}-{number}", row.about));
                lock.try_acquire().await.unwrap().unwrap().into_handle().detach();
                tokio::time::sleep(millis(30)).await;
            }
        };
        let lock = redlock.lock("job");
        let outcome = verdict(row, &redlock, (&row.cause, time_limit(row)), lock.try_acquire());
        let (outcome, ()) = tokio::join!(outcome, other_client);
        assert_none([outcome]);
        fakes.push((row, fake));
    }
    // The clients are closed. Their pending deletes stay for one TTL.
    for (row, fake) in fakes {
        let what = format!("{}: a client that is gone closes its connection", row.about);
        eventually(&what, || fake.connections() <= 1).await;
    }
}
