//! Tests of single rounds: what they wait for, and until when.

use std::time::Duration;

use super::super::round::{RoundParams, round};
use super::scripted::{Does, SECOND, Setup, assert_at};
use crate::clock::Clock;
use crate::node::Expect;
use crate::options::lock::Options;
use crate::primitive::Preference;

/// A scout that fails late leaves less time to the next one.
#[tokio::test(start_paused = true)]
async fn scouts_share_the_time_of_their_round() {
    let time = SECOND / 25;
    let setup = Setup::new(&[Does::FailsIn(time * 3 / 4), Does::Hangs, Does::Hangs], None);
    let acquirer = &setup.running.acquirer;
    // Rounds took so long that a scout may take all of this one.
    (0..100).for_each(|_| acquirer.leases.fairness.took(SECOND));
    assert!(round(&setup.request, acquirer, params(&setup, time)).await.is_err());
    assert_at(setup.clock.elapsed(), time);
}

/// How a round runs that other clients contend with, for at most this time.
fn params(setup: &Setup, time: Duration) -> RoundParams {
    let now = setup.clock.now();
    RoundParams {
        now,
        until: now + time,
        expect: Expect::Contended,
        thorough: false,
        is_cut: false,
        may_repeat: true,
        preference: Preference::default(),
        turn: None,
    }
}

/// Otherwise every client that splits the vote would block the others for `node_timeout`, as long as one node hangs.
#[tokio::test(start_paused = true)]
async fn split_vote_does_not_wait_for_a_node_without_a_connection() {
    let hangs = [Does::Grants, Does::Connects, Does::Refuses];
    let late = [Does::GrantsIn(SECOND / 5, 1), Does::RefusesIn(SECOND / 10), Does::Connects];
    // The rest may take as long as the others took.
    for (nodes, may_repeat, time) in
        [(hangs, true, SECOND / 100), (hangs, false, SECOND / 10), (late, true, SECOND * 2 / 5)]
    {
        let setup = Setup::new(&nodes, None);
        let how = RoundParams { expect: Expect::Unknown, may_repeat, ..params(&setup, SECOND) };
        let refusal = round(&setup.request, &setup.running.acquirer, how).await.err().unwrap();
        assert_at(setup.clock.elapsed(), time);
        assert!(refusal.is_divided());
        assert_eq!(refusal.has_quorum(), Some(true));
    }
}

/// All clients then have the same scout, so they do not split the votes of the others.
#[tokio::test(start_paused = true)]
async fn node_without_a_connection_is_no_scout() {
    let setup = Setup::new(&[Does::Connects, Does::Refuses, Does::Grants], None);
    let how = params(&setup, SECOND);
    let refusal = round(&setup.request, &setup.running.acquirer, how).await.err().unwrap();
    assert_at(setup.clock.elapsed(), Duration::ZERO);
    // Only the scout has replied.
    assert_eq!(refusal.has_quorum(), None);
}

/// A node that is only slow may be needed, because another one has a key that was left behind.
#[tokio::test(start_paused = true)]
async fn split_vote_waits_for_a_node_with_a_connection() {
    let setup = Setup::new(&[Does::Grants, Does::GrantsIn(SECOND / 2, 1), Does::Refuses], None);
    let how = RoundParams { expect: Expect::Unknown, ..params(&setup, SECOND) };
    assert!(round(&setup.request, &setup.running.acquirer, how).await.is_ok());
    assert_at(setup.clock.elapsed(), SECOND / 2);
}

/// The nodes disagree about the token, and none confirms the largest one.
#[tokio::test(start_paused = true)]
async fn tokens_are_settled_before_the_wait_ends() {
    let grants = |fence| Does::GrantsIn(SECOND * 9 / 10, fence);
    let options = Options { fencing: true, ..Options::default() };
    let setup = Setup::with(&[1, 2, 3].map(grants), options);
    let (_, time) = setup.fails(setup.within(Some(SECOND))).await;
    assert_at(time, SECOND);
}
