//! Runs the library over simulated servers, byte streams and virtual time.
//!
//! All of it runs, down to the bytes of its connections: rounds, leases, renewals, reconnects, handshakes,
//! notifications, the search for a primary and for the owners of slots. Only the operating system's sockets, TLS, the
//! lookup of names and the threads of the callers are outside.
//!
//! A seed generates a scenario. The same seed plays identically, byte for byte. A scenario that breaks a promise is
//! shrunk by leaving steps out.
//!
//! Words of the simulation: a *promise* is a guarantee of the library, and a *violation* is a broken one. A *node* is
//! what a client votes on: a server, or a cluster of several. A *place* is the index of a server among all servers. The
//! *world* has the servers, links and future events. The *player* polls the clients' tasks and applies the events.
//!
//! | modules | contents |
//! |---|---|
//! | `scenario`, `action`, `generator`, `situations`, `special`, `failovers` | the events of a run: clients that acquire, hold, extend, cancel, pause and crash, and failures of nodes and connections |
//! | `play`, `start`, `steps`, `usage` | the run: tasks polled on one thread, steps applied to the world, lock operations of clients |
//! | `world`, `clock` | virtual time and the clock of each client |
//! | `environment`, `simulated`, `logins` | the environment of a client's connections, its nodes as the monitor observes them, and logins that expire |
//! | `link`, `net`, `resp`, `wire` | the path to a server, the bytes of connections, the protocol, and commands about connections |
//! | `sides` | the uses and keys of read/write locks |
//! | `server`, `commands`, `scripts`, `scripts_sides`, `hazards`, `refusals` | the keys of a server, the commands and scripts that use them, the changes made to it, and its errors |
//! | `slots` | a node that is a cluster, and how its slots move |
//! | `real_server`, `redis_process` | the comparison of these with a real server |
//! | `replicas`, `sentinels` | the data of a node's replicas, their promotion, and who learns of it |
//! | `monitor`, `record`, `progress`, `min_hold`, `view` | the promises, checked after every step |

mod action;
mod clock;
mod commands;
mod environment;
mod failovers;
mod generator;
mod hazards;
mod link;
mod logins;
mod min_hold;
mod monitor;
mod net;
mod play;
mod progress;
#[cfg(unix)]
mod real_server;
mod record;
#[cfg(unix)]
mod redis_process;
mod refusals;
mod replicas;
mod resp;
mod scenario;
mod scripts;
mod scripts_sides;
mod semaphores;
mod sentinels;
mod server;
mod sides;
mod simulated;
mod situations;
mod slots;
mod special;
mod start;
mod steps;
mod usage;
mod view;
mod wire;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use scenario::{Promise, Scenario};

fn seeds(default: u64) -> u64 {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(default)
}

/// The promises whose scenarios differ most.
const ALL: [Promise; 5] = [
    Promise::Kept,
    Promise::ServersChange,
    Promise::ReplicasConfirm,
    Promise::SlotsMove,
    Promise::ClustersFailOver,
];

/// Plays seeds on all cores and returns the first violation, shrunk.
fn search(promise: Promise, first: u64, count: u64) -> Option<(u64, Scenario, String)> {
    let next = AtomicU64::new(first);
    let found = std::sync::Mutex::new(None);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while found.lock().unwrap().is_none() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let scenario = Scenario::from_seed(seed, promise);
                    if let Err(violation) = play::play(&scenario) {
                        found.lock().unwrap().get_or_insert((seed, scenario, violation));
                    }
                }
            });
        }
    });
    let (seed, scenario, violation) = found.into_inner().unwrap()?;
    if std::env::var("SHRINK").is_ok_and(|shrink| shrink == "0") {
        return Some((seed, scenario, violation));
    }
    let kind = violation.split(':').next().unwrap_or_default().to_owned();
    let same =
        |candidate: &Scenario| play::play(candidate).err().filter(|again| again.starts_with(&kind));
    let (shrunk, violation) = scenario.shrink(violation, same);
    Some((seed, shrunk, violation))
}

/// With TRACE, includes the full trace of the run.
fn report(seed: u64, scenario: &Scenario, violation: &str) -> String {
    let steps = scenario.steps.len();
    let trace = std::env::var("TRACE").map(|_| play::trace(scenario).join("\n"));
    let trace = trace.unwrap_or_default();
    format!("seed {seed}: {violation}\nshortest schedule, {steps} steps:\n{scenario}{trace}")
}

/// Plays `count` seeds, starting at FIRST. No seed may break a promise.
fn check_seeds(promise: Promise, count: u64) {
    let first = std::env::var("FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    if let Some((seed, scenario, violation)) = search(promise, first, count) {
        panic!("{}", report(seed, &scenario, &violation));
    }
    println!("{promise:?}, {count} seeds from {first}: no violation");
}

/// Plays fewer seeds, for promises that need less coverage.
fn check_fewer_seeds(promise: Promise) {
    check_seeds(promise, seeds(60).min(20_000));
}

#[test]
fn all_guarantees_hold() {
    check_seeds(Promise::Kept, seeds(400));
}

#[test]
fn finds_second_holders_where_nothing_is_guaranteed() {
    for promise in [
        Promise::KeysAreDeleted,
        Promise::NodesAreFlushed,
        Promise::NoGuard,
        Promise::LastWritesAreLost,
    ] {
        let (seed, scenario, violation) = search(promise, 0, 20_000)
            .unwrap_or_else(|| panic!("{promise:?} was never seen to break anything"));
        assert!(violation.starts_with("two holders"), "{promise:?}: {violation}");
        println!("{promise:?}: {}", report(seed, &scenario, &violation));
    }
}

#[test]
fn replaced_servers_break_no_guarantee() {
    check_fewer_seeds(Promise::ServersChange);
}

#[test]
fn confirmed_writes_survive_replaced_servers() {
    check_fewer_seeds(Promise::ReplicasConfirm);
}

#[test]
fn moving_slots_break_no_guarantee() {
    check_fewer_seeds(Promise::SlotsMove);
}

#[test]
fn cluster_failovers_break_no_guarantee() {
    check_fewer_seeds(Promise::ClustersFailOver);
}

#[test]
fn flushes_break_no_guarantee() {
    check_fewer_seeds(Promise::FlushesAreSurvived);
}

#[test]
fn force_released_lock_is_free() {
    check_fewer_seeds(Promise::ForceReleased);
}

#[test]
fn fencing_tokens_increase_after_a_manual_delete() {
    check_fewer_seeds(Promise::TokensDespiteDeletes);
}

#[test]
fn repeated_acquires_let_others_in() {
    for seed in 0..20 {
        let scenario = Scenario::repeated_acquires(seed, 1);
        if let Err(violation) = play::play(&scenario) {
            panic!("{}", report(seed, &scenario, &violation));
        }
    }
}

#[test]
fn free_lock_is_granted_within_about_one_round() {
    for seed in 0..20 {
        let scenario = Scenario::short_waits(seed, [1, 3][usize::from(seed % 2 == 1)]);
        if let Err(violation) = play::play(&scenario) {
            panic!("{}", report(seed, &scenario, &violation));
        }
    }
}

#[test]
fn lost_connection_is_found_soon_after_an_idle_time() {
    for seed in 0..20 {
        let scenario = Scenario::idle(seed);
        if let Err(violation) = play::play(&scenario) {
            panic!("{}", report(seed, &scenario, &violation));
        }
    }
}

#[test]
fn callers_that_collided_do_not_collide_forever() {
    for seed in 0..20 {
        let scenario = Scenario::colliding_callers(seed);
        if let Err(violation) = play::play(&scenario) {
            panic!("{}", report(seed, &scenario, &violation));
        }
    }
}

#[test]
fn seed_replays_identically() {
    let mut lines = 0;
    let first = (0..50).zip(ALL.into_iter().cycle());
    // In the first, the keys of three permits change together, and their leases were checked in any order. In the
    // other, a random key decided which server a client connects to.
    let unordered = [(22, Promise::SlotsMove), (62, Promise::SlotsMove)];
    for (seed, promise) in first.chain(unordered.into_iter().cycle().take(8)) {
        let scenario = Scenario::from_seed(seed, promise);
        let (one, two) = (play::trace(&scenario), play::trace(&scenario));
        let differ = one.iter().zip(&two).find(|(one, two)| one != two);
        assert!(differ.is_none() && one.len() == two.len(), "{promise:?}, seed {seed}: {differ:?}");
        lines += one.len();
    }
    assert!(lines > 50 * 50, "hardly anything was done: {lines} lines");
}
