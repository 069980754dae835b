//! `redlock run` in real time: a server that freezes or dies, and scheduled jobs on many hosts.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::command::{Running, is_running, outcome, redlock_at};
use crate::support::{Server, eventually_blocking};

const TTL: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_millis(500);

/// How long a loss may take to end the command, beyond the TTL and the grace time. The machine may be busy.
const MARGIN: Duration = Duration::from_secs(1);

#[test]
fn command_ends_within_ttl_and_grace_if_the_server_freezes_or_dies() {
    for signal in [libc::SIGSTOP, libc::SIGKILL] {
        let server = Server::start();
        let script = "trap '' TERM; sleep 100 & echo ready; echo $$; echo $!; wait; wait; wait";
        let words = ["run", "--ttl", "2s", "--grace", "500ms", "job", "--", "sh", "-c", script];
        let mut running = Running::ready(redlock_at(&server, &words));
        let pids = [running.line(), running.line()];
        server.signal(signal);
        let began = Instant::now();
        eventually_blocking("the command ends", || !pids.iter().any(|pid| is_running(pid)));
        let took = began.elapsed();
        assert!(took <= TTL + GRACE + MARGIN, "{took:?} after signal {signal}");
        assert_eq!(running.status(), 99);
        if signal == libc::SIGSTOP {
            server.signal(libc::SIGCONT);
        }
    }
}

const PROCESSES: u64 = 50;
const TICKS: usize = 20;
/// Longer than all starts of one tick take, on a busy machine too.
const MIN_HOLD: Duration = Duration::from_secs(4);

/// Hosts whose clocks differ start the same job one after the other. One of them runs it.
#[test]
fn min_hold_lets_one_of_fifty_processes_run_in_each_tick() {
    let server = Server::start();
    for tick in 1..=TICKS {
        let began = Instant::now();
        let start = |number: u64| {
            // A clock that is up to 1 s late.
            std::thread::sleep(Duration::from_millis(number * 1000 / PROCESSES));
            let words = ["run", "-n", "--ttl", "5", "--min-hold", "4", "job", "--", "echo", "ran"];
            let outcome = outcome(redlock_at(&server, &words));
            assert!(outcome.stderr.is_empty(), "{}", outcome.stderr);
            (outcome.status, outcome.stdout)
        };
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> =
                (0..PROCESSES).map(|number| scope.spawn(move || start(number))).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(began.elapsed() < MIN_HOLD, "the machine is too slow for this test");
        let ran = outcomes.iter().filter(|outcome| **outcome == (0, "ran\n".to_owned())).count();
        let skipped = outcomes.iter().filter(|outcome| **outcome == (1, String::new())).count();
        assert_eq!((ran, skipped), (1, 49), "tick {tick}");
        eventually_blocking("the next tick is due", || server.ask("EXISTS lock:job") == ":0");
    }
}

/// A long job is renewed.
#[test]
fn lock_is_held_for_longer_than_its_ttl() {
    let server = Server::start();
    let words = ["run", "--ttl", "1", "job", "--", "sh", "-c", "echo ready; read line; exit 3"];
    let mut command = redlock_at(&server, &words);
    command.stdin(Stdio::piped());
    let mut running = Running::ready(command);
    let end = Instant::now() + 3 * TTL;
    eventually_blocking("three TTLs pass", || {
        assert_eq!(server.ask("EXISTS lock:job"), ":1");
        Instant::now() > end
    });
    writeln!(running.child.stdin.as_mut().unwrap(), "end").unwrap();
    assert_eq!(running.status(), 3);
}
