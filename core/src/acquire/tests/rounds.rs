//! Tests of single rounds: what they wait for, and until when.

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
    let now = setup.clock.now();
    let how = RoundParams {
        now,
        until: now + time,
        expect: Expect::Contended,
        thorough: false,
        is_cut: true,
        preference: Preference::default(),
        turn: None,
    };
    assert!(round(&setup.request, acquirer, how).await.is_err());
    assert_at(setup.clock.elapsed(), time);
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
