//! Who does the work, while many wait and none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::wait::STACK;
use super::{on_background, sleep, spawn, wait};

const LONG: Duration = Duration::from_secs(10);

fn here() -> ThreadId {
    thread::current().id()
}

/// Who does what is spawned, by the word of whoever did it.
async fn who_works() -> ThreadId {
    let (says, said) = oneshot::channel();
    spawn(async move { says.send(here()).unwrap() }).detach();
    said.await.unwrap()
}

fn ask() -> ThreadId {
    match wait(pin!(who_works()), LONG) {
        Poll::Ready(thread) => thread,
        Poll::Pending => panic!("nobody works"),
    }
}

#[test]
fn who_waits_does_the_work_and_what_others_leave_is_done_all_the_same() {
    // Other tests' threads wait meanwhile, too, and one does the work of all.
    let (end, mut own) = (Instant::now() + LONG, 0);
    while own < 1000 {
        own += usize::from(ask() == here());
        assert!(Instant::now() < end, "{own} times in all this time");
    }
    assert!(!on_background());
    // Nobody waits now: what is left is for the background thread.
    for _ in 0..100 {
        let (says, said) = std::sync::mpsc::channel();
        spawn(async move { says.send(here()).unwrap() }).detach();
        assert_ne!(said.recv_timeout(LONG).unwrap(), here());
    }
}

#[test]
fn many_who_wait_at_once_are_all_served() {
    let waits = |rounds: u32| {
        for round in 0..rounds {
            ask();
            if round % 50 == 0 {
                // Longer than the background thread looks away.
                assert_eq!(wait(pin!(sleep(Duration::from_millis(7))), LONG), Poll::Ready(()));
                thread::sleep(Duration::from_millis(u64::from(round % 7)));
            }
        }
    };
    thread::scope(|all| {
        for _ in 0..8 {
            all.spawn(|| waits(300));
        }
    });
}

#[test]
fn one_who_waits_for_nothing_is_no_hindrance() {
    let nothing = std::future::pending::<()>();
    thread::scope(|all| {
        all.spawn(|| assert!(wait(pin!(nothing), Duration::from_millis(300)).is_pending()));
        let end = Instant::now() + Duration::from_millis(400);
        while Instant::now() < end {
            ask();
            thread::sleep(Duration::from_millis(1));
        }
    });
    ask();
}

#[test]
fn those_who_need_not_wait_keep_nobody_from_the_work() {
    let (says, said) = std::sync::mpsc::channel();
    spawn(async move {
        for _ in 0..20 {
            sleep(Duration::from_millis(5)).await;
        }
        says.send(()).unwrap();
    })
    .detach();
    let end = Instant::now() + LONG;
    while said.try_recv().is_err() {
        assert_eq!(wait(pin!(async {}), LONG), Poll::Ready(()));
        assert_eq!(wait(pin!(tokio::task::yield_now()), LONG), Poll::Ready(()));
        assert!(Instant::now() < end, "nobody works");
    }
}

#[test]
fn a_panic_leaves_the_place() {
    for _ in 0..10 {
        let panics = || wait(pin!(async { panic!("on purpose") }), LONG);
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!on_background());
        ask();
    }
}

#[test]
fn in_another_runtime_and_on_a_small_stack_the_work_is_left_to_others() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_ne!(runtime.block_on(async { ask() }), here());
    let small = thread::Builder::new().stack_size(STACK / 2);
    small.spawn(|| assert_ne!(ask(), here())).unwrap().join().unwrap();
}
