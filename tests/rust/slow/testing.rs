//! The waits of `redlock::testing`.

use redlock::testing::TestRedlock;

// Slow: the limit is ten seconds by the clock of the machine.
#[tokio::test]
async fn waits_of_a_test_end_with_a_timeout() {
    let redlock = TestRedlock::new().unwrap();
    let (waiting, held) =
        tokio::join!(redlock.until_waiting(2), redlock.until_held(["job", "other"]));
    let (waiting, held) = (waiting.unwrap_err(), held.unwrap_err());
    assert_eq!((waiting.code(), held.code()), ("timeout", "timeout"));
    assert_eq!(waiting.to_string(), "0 acquires are under way, fewer than 2");
    assert_eq!(held.to_string(), "lock:job, lock:other: not held");
}
