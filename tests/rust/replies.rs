//! A broken or hostile reply (`vectors/replies.toml`) is an error with its cause, in time, for every command.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock::{Error, ErrorKind, NodeState, Redlock};

use crate::fake::{Fake, Row, attempts, rows};
use crate::support::millis;

const SLACK: Duration = millis(5000);

/// Longer than a reply takes on a busy machine. Shorter where no reply will come.
pub(crate) fn time_limit(row: &Row) -> Duration {
    millis(if row.cause.is_empty() { 400 } else { 9000 })
}

/// Describes the error in the outcome of a call, if there is one.
pub(crate) async fn verdict<T: Debug>(
    row: &Row,
    redlock: &Redlock,
    (words, time_limit): (&[String], Duration),
    call: impl Future<Output = Result<T, Error>>,
) -> Option<String> {
    let started = Instant::now();
    let Ok(outcome) = tokio::time::timeout(time_limit + SLACK, call).await else {
        return Some(format!("{}: it took too long", row.about));
    };
    let took = started.elapsed();
    let shown = format!("{outcome:?} {redlock:?}");
    let problem = match &outcome {
        Ok(_) => "it was accepted",
        Err(error) if error.kind() != ErrorKind::Unavailable => "another kind",
        Err(error) if error.nodes()[0].state != NodeState::Fault => "no fault",
        Err(error) if !names(error, words) => "another cause",
        Err(_) if shown.contains("s3cret") => "the password is shown",
        Err(_) => return None,
    };
    Some(format!("{}: {problem}, after {took:?}: {shown}", row.about))
}

fn names(error: &Error, words: &[String]) -> bool {
    let cause = error.nodes()[0].error.clone().unwrap_or_default();
    !cause.is_empty() && words.iter().all(|word| cause.contains(word))
}

pub(crate) fn assert_none(verdicts: impl IntoIterator<Item = Option<String>>) {
    let wrong: Vec<String> = verdicts.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) fn client(row: &Row, fake: &Fake) -> Redlock {
    let builder = Redlock::builder([fake.url()]).node_timeout(time_limit(row));
    builder.connect_timeout(millis(2000)).build().unwrap()
}

#[tokio::test]
async fn acquire_ends_within_its_wait() {
    let verdicts = rows().0.into_iter().map(|row| async move {
        let redlock = client(&row, &Fake::start(&row, true));
        let lock = redlock.lock("job").wait(millis(1000));
        verdict(&row, &redlock, (&[], millis(1000)), lock.acquire()).await
    });
    assert_none(join_all(verdicts).await);
}

#[tokio::test]
async fn wrong_reply_to_a_plain_attempt_runs_the_script() {
    let verdicts = attempts().into_iter().map(|row| async move {
        let fake = Fake::start(&row, true);
        let redlock = client(&row, &fake);
        let acquired = tokio::time::timeout(millis(20_000), redlock.lock("job").acquire()).await;
        let held = matches!(&acquired, Ok(Ok(lease)) if lease.is_held());
        (held && !fake.granted()).then(|| format!("{}: {acquired:?}", row.about))
    });
    assert_none(join_all(verdicts).await);
}

#[tokio::test]
async fn every_command_reports_the_cause_within_node_timeout() {
    let verdicts = rows().0.into_iter().map(|row| async move {
        let redlock = client(&row, &Fake::start(&row, true));
        let lock = redlock.lock("job");
        let (tried, attached, forced, seen) = tokio::join!(
            verdict(&row, &redlock, (&row.cause, time_limit(&row)), lock.try_acquire()),
            verdict(&row, &redlock, (&row.cause, time_limit(&row)), lock.attach("token")),
            verdict(&row, &redlock, (&row.cause, time_limit(&row)), redlock.force_release("job")),
            verdict(&row, &redlock, (&row.cause, time_limit(&row)), lock.inspect()),
        );
        tried.or(attached).or(forced).or(seen)
    });
    assert_none(join_all(verdicts).await);
}

#[tokio::test]
async fn wrong_reply_neither_extends_nor_releases() {
    let answers = rows().0.into_iter().filter(|row| row.to == "EVALSHA");
    let verdicts = answers.map(|row| async move {
        let fake = Fake::start(&row, false);
        let redlock = client(&row, &fake);
        let lock = redlock.lock("job").ttl(Duration::from_secs(20)).renew(false);
        let lease = lock.acquire().await.unwrap();
        fake.misbehave();
        let extended =
            verdict(&row, &redlock, (&row.cause, time_limit(&row)), lease.extend(millis(5000)))
                .await;
        let lost = (!lease.is_held()).then(|| format!("{}: lost by an odd answer", row.about));
        extended.or(lost).or(verdict(
            &row,
            &redlock,
            (&row.cause, time_limit(&row)),
            lease.release(),
        )
        .await)
    });
    assert_none(join_all(verdicts).await);
}
