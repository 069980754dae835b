//! Tests when an acquire without a `wait` gives up, and of leases over such nodes. The nodes are scripted, and the
//! clock is paused.

mod rounds;
mod scripted;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::attach;
use crate::error::ErrorKind;
use crate::primitive::Preference;
use scripted::{Does, SECOND, Setup, assert_at};

#[tokio::test(start_paused = true)]
async fn dead_node_ends_the_acquire_exactly_at_the_limit() {
    for does in [Does::Fails, Does::Hangs] {
        let setup = Setup::new(&[does], 10 * SECOND);
        let (error, time) = setup.fails(setup.acquire()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, 10 * SECOND);
        assert_eq!(error.waited(), Some(time));
        assert_eq!(error.nodes()[0].url, "node://0");
        let text = error.to_string();
        assert!(text.contains("job: not available for 10.00"), "{text}");
        assert!(text.contains("Gave up after unavailable_after (10 s)"), "{text}");
    }
}

/// It tries again while others take the open permits first, but each round may take a `node_timeout`.
#[tokio::test(start_paused = true)]
async fn single_attempt_on_a_semaphore_ends_soon() {
    for (late, rounds) in [(SECOND / 100, 4), (SECOND * 9 / 10, 2)] {
        let setup = Setup::semaphore(&[Does::RefusesIn(late)], 3);
        let (error, time) = setup.fails(setup.within(Some(Duration::ZERO))).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_at(time, rounds * late);
    }
}

/// The holder may have crashed with a key on one node, while another one is down.
#[tokio::test(start_paused = true)]
async fn refusal_by_a_minority_says_so() {
    let unsure = ". Other nodes granted it or failed, so perhaps no client has a majority";
    for (nodes, expected) in [
        ([Does::Grants, Does::Fails, Does::Refuses], true),
        ([Does::Refuses, Does::Fails, Does::Refuses], false),
        ([Does::Grants, Does::Refuses, Does::Refuses], false),
    ] {
        let setup = Setup::new(&nodes, None);
        let (error, _) = setup.fails(setup.within(Some(SECOND))).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        let text = error.to_string();
        assert!(text.contains("already held by web-3, and expires in "), "{text}");
        assert_eq!(text.contains(unsure), expected, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn acquire_without_limit_continues_until_the_node_returns() {
    let setup = Setup::new(&[Does::Fails], None);
    let mut acquire = pin!(setup.acquire());
    assert!(timeout(500 * SECOND, &mut acquire).await.is_err());
    setup.now_does(&[Does::Grants]);
    assert!(acquire.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn explicit_wait_replaces_the_limit() {
    let setup = Setup::new(&[Does::Fails], 10 * SECOND);
    for wait in [3 * SECOND, 60 * SECOND] {
        let began = setup.clock.elapsed();
        let (error, time) = setup.fails(setup.within(Some(wait))).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, began + wait);
        assert!(!error.to_string().contains("Gave up"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_held_lock_without_limit() {
    // One failed node of three changes nothing: it decides each vote before the third node has replied.
    let late = Does::RefusesIn(SECOND / 100);
    for does in
        [&[Does::Refuses][..], &[Does::Fails, Does::Refuses, late], &[late, Does::Hangs, late]]
    {
        let setup = Setup::new(does, SECOND);
        let mut acquire = pin!(setup.acquire());
        assert!(timeout(500 * SECOND, &mut acquire).await.is_err());
        setup.now_does(&vec![Does::Grants; does.len()]);
        assert!(acquire.await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn refusing_quorum_restarts_the_limit() {
    for held in
        [&[Does::Refuses; 3][..], &[Does::Fails, Does::Refuses, Does::RefusesIn(SECOND / 100)]]
    {
        let setup = Setup::new(&[Does::Fails; 3], 10 * SECOND);
        let mut acquire = pin!(setup.acquire());
        for _ in 0..5 {
            assert!(timeout(7 * SECOND, &mut acquire).await.is_err());
            setup.now_does(held);
            assert!(timeout(8 * SECOND, &mut acquire).await.is_err());
            setup.now_does(&[Does::Fails; 3]);
        }
        let began = setup.clock.elapsed();
        let (error, time) = setup.fails(acquire).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        // With one failed node, a round in about a second finds out whether the others are a quorum.
        assert!(time >= began + 8 * SECOND && time < began + 12 * SECOND, "{time:?}");
    }
}

/// The failed node and one refusal end the round, whenever the other replies arrive.
#[tokio::test(start_paused = true)]
async fn failed_node_does_not_hide_the_holder() {
    use Does::{Fails, Grants, Hangs, Refuses};
    let late = Does::RefusesIn(SECOND / 100);
    let degraded = [
        &[Fails, Refuses, late][..],
        &[Fails, Refuses, Hangs],
        &[late, Hangs, Fails],
        &[Grants, Refuses, Fails],
        &[Hangs, Fails, Refuses, Hangs, Refuses],
    ];
    for does in degraded {
        let setup = Setup::new(does, None);
        for wait in [Duration::ZERO, SECOND / 5] {
            let (error, _) = setup.fails(setup.within(Some(wait))).await;
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            let text = "it is already held by web-3, and expires in ";
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(error.holder(), Some("web-3"));
            // Counted down from the last reply.
            let left = error.remaining().unwrap();
            assert!(left <= 60 * SECOND && left + wait >= 60 * SECOND, "{left:?}");
        }
    }
}

/// One node of three is not a quorum, whether it is the scout or fails the vote together with another one.
#[tokio::test(start_paused = true)]
async fn key_on_a_minority_does_not_hide_a_missing_quorum() {
    let minority = [
        [Does::Fails, Does::Hangs, Does::Refuses],
        [Does::Refuses, Does::Fails, Does::Hangs],
        [Does::Refuses, Does::Hangs, Does::Hangs],
        [Does::Refuses, Does::Fails, Does::Fails],
    ];
    for does in minority {
        let setup = Setup::new(&does, 10 * SECOND);
        let (error, time) = setup.fails(setup.acquire()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, 10 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn queued_callers_give_up_at_their_own_limit() {
    let setup = Setup::new(&[Does::Hangs], 10 * SECOND);
    let later = async {
        sleep(3 * SECOND).await;
        setup.fails(setup.acquire()).await
    };
    // More callers than a silent node allows within the limit.
    let first = futures_util::future::join_all((0..50).map(|_| setup.fails(setup.acquire())));
    let (first, (error, time)) = tokio::join!(first, later);
    for (error, time) in first {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, 10 * SECOND);
        assert_eq!(error.nodes().len(), 1, "{error}");
    }
    assert_at(time, 13 * SECOND);
    assert!(error.to_string().contains("not available for 10.00"), "{error}");
}

/// Most of them never get their turn within the wait.
#[tokio::test(start_paused = true)]
async fn queued_callers_with_a_wait_report_the_outage() {
    let setup = Setup::new(&[Does::Hangs], 10 * SECOND);
    let all = (0..20).map(|_| setup.fails(setup.within(Some(5 * SECOND))));
    for (error, time) in futures_util::future::join_all(all).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_at(time, 5 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn queued_callers_wait_for_a_held_lock() {
    let setup = Setup::new(&[Does::Refuses], SECOND);
    let all = futures_util::future::join_all((0..5).map(|_| setup.acquire()));
    assert!(timeout(100 * SECOND, all).await.is_err());
}

/// The new server of a node may have confirmed the holder's lease, after the old one granted the lock.
#[tokio::test(start_paused = true)]
async fn vote_of_a_server_that_is_replaced_during_the_round_does_not_count() {
    use Does::{Grants, GrantsAndIsReplaced, Hangs};
    let setup = Setup::new(&[GrantsAndIsReplaced, Grants, Hangs], SECOND);
    let (error, _) = setup.fails(setup.within(Some(5 * SECOND))).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    setup.now_does(&[Grants, Grants, GrantsAndIsReplaced]);
    assert!(setup.within(Some(SECOND)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn attach_fails_without_a_lease_if_the_keys_change_in_every_round() {
    let setup = Setup::new(&[Does::ExtendsWithHolder], None);
    let claim = setup.request.claim(&Preference::default());
    let acquirer = &setup.running.acquirer;
    let error = attach(&setup.request, &claim, acquirer, || None).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("changed during every attempt"), "{error}");
    assert!(acquirer.leases.registry.leases().is_empty());
}

/// A server that cannot run the check may be in this state for long. The loss is noticed soon after.
#[tokio::test(start_paused = true)]
async fn loss_is_noticed_soon_after_an_outage() {
    let (ttl, mut setup) = (600 * SECOND, Setup::new(&[Does::Grants], None));
    let request = Arc::get_mut(&mut setup.request).unwrap();
    (request.options.ttl, request.options.renew) = (ttl, false);
    let lease = setup.acquire().await.unwrap();
    setup.now_does(&[Does::Hangs]);
    setup.running.leases().watch.changed_keys(&["job".to_owned()]);
    sleep(100 * SECOND).await;
    assert!(lease.is_held());
    setup.now_does(&[Does::Misses]);
    let begun = setup.clock.elapsed();
    lease.lost().await;
    assert!(setup.clock.elapsed() < begun + 7 * SECOND, "{:?}", setup.clock.elapsed());
}

#[tokio::test(start_paused = true)]
async fn renewal_that_a_release_denies_is_not_counted_as_failed() {
    let setup = Setup::new(&[Does::Grants], None);
    let lease = setup.acquire().await.unwrap();
    let ttl = lease.ttl();
    let counts = || {
        let stats = setup.running.leases().counts.snapshot();
        (stats.unrenewed, stats.released)
    };
    // A renewal is under way.
    sleep(ttl / 3 + SECOND / 20).await;
    lease.release().await.unwrap();
    sleep(SECOND).await;
    assert_eq!(counts(), (0, 1));
    let lost = setup.acquire().await.unwrap();
    lost.lost().await;
    sleep(SECOND).await;
    assert_eq!(counts(), (1, 1));
}
