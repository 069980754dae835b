//! Primaries under Sentinel, with real servers and sentinels. The client finds and follows them, and does not trust a
//! server that is not a primary.

use std::time::Duration;

use redlock::{ErrorKind, LossReason, Redlock, TlsOptions};

use crate::support::Certificates;
use crate::support::{SERVERS_PASSWORD, Sentinels, builder, eventually, late_failure, millis};

/// The time of a failover, with a margin.
const FAILOVER_LIMIT: Duration = Duration::from_secs(30);

fn client(sentinels: &Sentinels) -> Redlock {
    builder([sentinels.url(0)]).build().unwrap()
}

#[tokio::test]
async fn failover_notifies_holder_of_an_unreplicated_key() {
    let mut sentinels = Sentinels::start(1, 2);
    let old = sentinels.services[0].servers[0].port;
    let redlock = client(&sentinels);
    // Its next renewal is a minute away.
    let lease = redlock.lock("job").ttl(millis(180_000)).acquire().await.unwrap();
    for replica in &sentinels.services[0].servers[1..] {
        replica.ask("CONFIG SET replica-read-only no");
        eventually("the replica has it", || replica.ask("DEL lock:job") == ":1").await;
    }
    sentinels.fail_over(0);
    let lost =
        tokio::time::timeout(FAILOVER_LIMIT, lease.lost()).await.expect("notified at the switch");
    // The failover is not complete yet. The client waits only for the old primary to change its role.
    assert_eq!(lost.loss_reason(), Some(LossReason::Missing), "{lost}");
    let new = sentinels.wait_switched(0, old);
    let next = redlock.lock("job").try_acquire().await.unwrap().expect("free at the new one");
    assert_eq!(sentinels.server(new).ask("GET lock:job"), next.token());
}

#[tokio::test]
async fn lease_survives_the_death_of_the_primary() {
    let mut sentinels = Sentinels::start(1, 2);
    let old = sentinels.services[0].servers[0].port;
    let redlock = client(&sentinels);
    let lease = redlock.lock("job").ttl(millis(20_000)).acquire().await.unwrap();
    let replicas = &sentinels.services[0].servers[1..];
    let have = || replicas.iter().all(|one| one.ask("EXISTS lock:job") == ":1");
    eventually("the replicas have it", have).await;
    sentinels.server(old).kill();
    // A lease that is released while no primary exists is deleted at the next primary.
    let other = redlock.lock("other");
    let error = other.clone().wait(millis(100)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let new = sentinels.wait_switched(0, old);
    let found = tokio::time::timeout(millis(3000), other.acquire()).await;
    found.expect("followed at once").unwrap().release().await.unwrap();
    assert!(lease.is_held());
    assert_eq!(sentinels.server(new).ask("GET lock:job"), lease.token());
    lease.release().await.unwrap();
}

#[tokio::test]
async fn unconfirmed_delete_is_sent_to_the_new_primary() {
    let mut sentinels = Sentinels::start(1, 2);
    let old = sentinels.services[0].servers[0].port;
    let redlock = client(&sentinels);
    let lease = redlock.lock("job").ttl(millis(300_000)).acquire().await.unwrap();
    let replicas = &sentinels.services[0].servers[1..];
    let have = || replicas.iter().all(|one| one.ask("EXISTS lock:job") == ":1");
    eventually("the replicas have it", have).await;
    sentinels.server(old).kill();
    lease.release().await.unwrap_err();
    let new = sentinels.wait_switched(0, old);
    let new = sentinels.server(new);
    eventually("the delete is sent", || new.ask("EXISTS lock:job") == ":0").await;
}

#[tokio::test]
async fn refuses_a_replica_reported_as_primary() {
    let mut sentinels = Sentinels::start(1, 1);
    let primary = sentinels.services[0].servers[0].port;
    let redlock = client(&sentinels);
    // Demoted without the sentinels, which report it as the primary for a while.
    let other = sentinels.services[0].servers[1].port;
    sentinels.server(primary).ask(&format!("REPLICAOF 127.0.0.1 {other}"));
    let connecting = |text: &str| text.contains("still connecting");
    let error = late_failure(&redlock.lock("job").wait(millis(200)), connecting).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let cause = error.nodes()[0].error.clone().unwrap_or_default();
    assert!(cause.contains("its role is slave"), "{cause}");
    sentinels.server(primary).ask("REPLICAOF NO ONE");
    redlock.lock("job").wait(FAILOVER_LIMIT).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn demoted_primary_is_left_and_gets_no_delete() {
    let mut sentinels = Sentinels::start(1, 1);
    let primary = sentinels.services[0].servers[0].port;
    let redlock = client(&sentinels);
    let lease = redlock.lock("job").ttl(millis(300_000)).acquire().await.unwrap();
    let other = sentinels.services[0].servers[1].port;
    let replica = sentinels.server(other);
    eventually("the replica has it", || replica.ask("EXISTS lock:job") == ":1").await;
    // Its connections stay open. Only its replies show that it is not a primary any more.
    sentinels.server(primary).ask(&format!("REPLICAOF 127.0.0.1 {other}"));
    let error = lease.release().await.unwrap_err();
    assert!(format!("{:?}", error.nodes()).contains("READONLY"), "{error}");
    sentinels.server(primary).ask("REPLICAOF NO ONE");
    let primary = sentinels.server(primary);
    eventually("the delete is sent", || primary.ask("EXISTS lock:job") == ":0").await;
}

#[tokio::test]
async fn sentinel_and_server_passwords_are_separate_and_hidden() {
    let sentinels = Sentinels::with(1, 1, Some("s3cret-sentinels"));
    let redlock = client(&sentinels);
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    let right = sentinels.url(0);
    let no_sentinel = right.split('?').next().unwrap().to_owned();
    let wrong_sentinel = right.replace("s3cret-sentinels", "s3cret-wrong");
    let wrong_server = right.replace(SERVERS_PASSWORD, "s3cret-wrong");
    for (url, says) in [
        (no_sentinel, "no sentinel reports the address of service-0"),
        (wrong_sentinel, "WRONGPASS"),
        (wrong_server, "WRONGPASS"),
    ] {
        let redlock = builder([url]).build().unwrap();
        let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
        let all = format!("{error} {error:?} {redlock:?}");
        assert!(all.contains(says), "{all}");
        assert!(!all.contains("s3cret"), "{all}");
    }
}

#[tokio::test]
async fn tls_applies_to_sentinels_and_servers() {
    let certificates = Certificates::new();
    let (_server, tls_port) = certificates.server("no");
    let sentinel = Sentinels::alone(tls_port, |name| certificates.path(name));
    let url = format!("rediss+sentinel://127.0.0.1:{}/service-0", sentinel.ports[0]);
    let tls = TlsOptions::new().ca(certificates.path("ca.crt"));
    let redlock = builder([url.clone()]).tls(tls).build().unwrap();
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    let tls = TlsOptions::new().ca(certificates.path("other-ca.crt"));
    let stranger = builder([url.clone()]).tls(tls).build().unwrap();
    let plain = builder([url.replace("rediss", "redis")]).build().unwrap();
    for redlock in [stranger, plain] {
        let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
        let cause = error.nodes()[0].error.clone().unwrap_or_default();
        assert!(cause.contains("no sentinel reports the address of service-0"), "{cause}");
    }
}
