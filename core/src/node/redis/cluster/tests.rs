//! Tests how a client applies the maps that servers report. No server is involved.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::state::MapState;
use super::task::ClusterTask;
use super::topology::{Range, Topology};
use super::{ClusterNode, ClusterSender, Map, Member, Outage, RedisNode, Target, follow, queue};
use crate::clock::paused::Paused;
use crate::clock::{Clock, SystemClock};
use crate::node::redis::commands::command::Redirects;
use crate::node::redis::commands::scripts::release_script;
use crate::node::redis::io::endpoint::ServerAddress;
use crate::node::redis::parse_cluster;
use crate::node::redis::protocol::InFlight;
use crate::node::redis::state::restart_guard::FAILOVER_NOTICE_TIME;
use crate::node::{Claim, Durability, Fault, Guarded, Needs, Node, Watch, slot};

/// The restart guard.
const GUARD: Duration = Duration::from_secs(60);
/// A key in slot 15,495, which the third server has.
const KEY: &str = "a";

fn server(number: u16) -> ServerAddress {
    ServerAddress::new("server", number)
}

/// Gives each of these servers a third of the slots.
fn thirds(owners: [u16; 3], replicas: [&[u16]; 3]) -> Vec<Range> {
    let range = |at: u16| Range {
        first: at * 5461,
        last: (at * 5461 + 5460).min(16_383) + u16::from(at == 2),
        owner: server(owners[usize::from(at)]),
        id: owners[usize::from(at)].to_string(),
        epoch: 0,
        replicas: replicas[usize::from(at)].iter().map(|number| server(*number)).collect(),
    };
    (0..3).map(range).collect()
}

/// The state of a cluster with a restart guard of one minute.
fn state() -> MapState {
    let route = parse_cluster("redis+cluster://server:1").unwrap();
    let needs = Needs { key_prefix: "lock:".to_owned(), durability: Durability::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let watch = Arc::new(Watch::new(Arc::default()));
    let mut target = Target::alone(route, GUARD, needs, Arc::default());
    let node = RedisNode::leading_to(queue(None).0, &target, Arc::clone(&clock));
    let unassigned = Arc::new(Member { address: ServerAddress::unknown(), node });
    let map = Arc::new(ArcSwap::from_pointee(Map::new(unassigned)));
    let (to, from) = (unbounded_channel().0, server(0));
    target.cluster = Some(ClusterSender { to, from, rerouted: std::sync::Weak::new() });
    MapState::new(map, target, None, clock, watch)
}

/// Applies this result of a discovery.
fn learn(state: &mut MapState, ranges: Vec<Range>) {
    state.apply_discovery(Topology { ranges, disputed: Vec::new() });
}

/// Returns why the owner of the key extends no lease, for an extension that is sent in this time.
fn replaced_fault(state: &MapState, key: &str, later: Duration) -> Option<Fault> {
    let asked = state.clock.now() + later;
    state.map.load().owner(slot(key)).node.link.guard.extend_fault(|| Some(slot(key)), asked)
}

/// Returns why the owner of the key takes no first vote.
fn guard_fault(state: &MapState, key: &str) -> Option<Fault> {
    state.map.load().owner(slot(key)).node.guarded(key).map(Guarded::fault)
}

#[tokio::test]
async fn unknown_promoted_replica_is_guarded() {
    let mut state = state();
    learn(&mut state, thirds([1, 2, 3], [&[], &[], &[]]));
    assert_eq!(guard_fault(&state, KEY), None, "the first map takes no slot from another server");
    learn(&mut state, thirds([1, 2, 4], [&[], &[], &[]]));
    let fault = guard_fault(&state, KEY).expect("a server that was not known as the master");
    assert!(fault.to_string().contains("replaced another server"), "{fault}");
    // The other servers kept their slots.
    assert_eq!(guard_fault(&state, "lock:job"), None);
}

/// Its caller reported a server that had replied as silent.
#[tokio::test(start_paused = true)]
async fn redirected_command_ends_before_its_deadline() {
    const SECOND: Duration = Duration::from_secs(1);
    let send = || std::future::ready(Err::<(), _>(Fault::redirect(true)));
    let followed = follow(Arc::new(Paused::new()), SECOND, send(), send);
    let fault = timeout(SECOND, followed).await.expect("before the deadline").unwrap_err();
    assert!(fault.to_string().contains("migrating"), "{fault}");
}

/// Other clients may still use the previous owner. The node would then confirm two leases.
#[tokio::test]
async fn new_owner_extends_no_lease_at_first() {
    let mut state = state();
    learn(&mut state, thirds([1, 2, 3], [&[], &[], &[]]));
    assert_eq!(replaced_fault(&state, KEY, Duration::ZERO), None);
    learn(&mut state, thirds([1, 2, 4], [&[], &[], &[]]));
    let fault = replaced_fault(&state, KEY, Duration::ZERO).expect("a new owner");
    assert!(fault.to_string().contains("some clients may still use"), "{fault}");
    assert_eq!(replaced_fault(&state, "lock:job", Duration::ZERO), None);
    // Only first votes are refused for longer.
    assert_eq!(replaced_fault(&state, KEY, FAILOVER_NOTICE_TIME), None);
    assert!(guard_fault(&state, KEY).is_some());
}

#[tokio::test]
async fn owner_of_an_unassigned_slot_is_guarded() {
    let mut state = state();
    learn(&mut state, thirds([1, 2, 3], [&[], &[], &[4]]));
    let mut without = thirds([1, 2, 3], [&[], &[], &[]]);
    without.pop();
    learn(&mut state, without);
    learn(&mut state, thirds([1, 2, 4], [&[], &[], &[]]));
    assert!(guard_fault(&state, KEY).is_some());
}

#[tokio::test]
async fn master_is_guarded_in_its_new_slots() {
    let mut state = state();
    learn(&mut state, thirds([1, 2, 3], [&[], &[], &[]]));
    state.apply_redirect(&server(3), slot(KEY), &server(2));
    assert!(guard_fault(&state, KEY).is_some());
    let (owner, slots) = (server(2), 5461..10_922);
    let other = (0..99).map(|at| format!("lock:{at}")).find(|key| slots.contains(&slot(key)));
    let map = state.map.load_full();
    assert_eq!(map.owner(6000).address, owner);
    assert_eq!(guard_fault(&state, &other.unwrap()), None);
}

#[tokio::test]
async fn disputed_slot_keeps_its_owner_until_a_discovery() {
    let mut state = state();
    let slot = slot(KEY);
    let owner = |state: &MapState| state.map.load().owner(slot).address.clone();
    learn(&mut state, thirds([1, 2, 3], [&[], &[], &[]]));
    let mut ranges = thirds([1, 2, 3], [&[], &[], &[]]);
    ranges.push(Range { first: slot + 1, ..ranges[2].clone() });
    ranges[2].last = slot - 1;
    let disputed = vec![(slot..=slot, vec![server(2), server(3)])];
    state.apply_discovery(Topology { ranges, disputed });
    assert!(state.is_unsettled());
    state.apply_redirect(&server(3), slot, &server(2));
    assert_eq!(owner(&state), server(3));
    // The disputed owners are asked first, then the other servers.
    let asked = state.servers_to_query(false);
    let asked: Vec<_> = asked.iter().map(|member| member.address.clone()).collect();
    assert_eq!(asked, [server(2), server(3), server(1)]);
    learn(&mut state, thirds([1, 2, 3], [&[], &[], &[]]));
    assert!(!state.is_unsettled());
    state.apply_redirect(&server(3), slot, &server(2));
    assert_eq!(owner(&state), server(2));
}

/// Otherwise a shutdown would report success before a server confirmed it.
#[tokio::test]
async fn change_of_owners_keeps_the_count_of_other_deletes() {
    let mut state = state();
    let command = |key: &str, lifetime| {
        let keys = [key.to_owned()].into();
        release_script(&Claim::of_owner("a".into(), keys), lifetime, None)
    };
    let delete = InFlight::without_caller(command(KEY, GUARD));
    state.fail_unsent(delete, &Fault::new("no server has the slot"));
    let counts = |state: &MapState| state.map.load().unassigned().node.may_leave_keys();
    learn(&mut state, thirds([1, 2, 3], [&[], &[], &[]]).drain(..2).collect());
    assert!(counts(&state), "its slot has no owner yet");
    // A server of an assigned slot has this one, and counts it.
    let of_server = command("lock:job", GUARD * 60);
    state.add_pending(&server(2), of_server, Redirects::default());
    assert!(!state.pending.is_empty());
    learn(&mut state, thirds([1, 2, 3], [&[], &[], &[]]));
    assert!(!counts(&state), "its owner counts it");
    assert!(state.map.load().owner(slot(KEY)).node.may_leave_keys());
}

/// A shutdown waits for this. One dead server must not fail it.
#[tokio::test]
async fn only_servers_with_deletes_must_reply() {
    let MapState { map, clock, .. } = state();
    let (url, outage) = ("redis+cluster://server:1".to_owned(), Outage::default());
    let (rerouted, client) = (Arc::default(), oneshot::channel().0);
    let node = ClusterNode { url, map, clock, outage, rerouted, _client: client };
    let map = node.map.load_full();
    // Every command fails, because nothing takes it.
    let link = &map.unassigned().node.link;
    link.opened(false);
    assert!(node.drained().await.is_ok());
    let delete = Arc::clone(link.deletes());
    assert!(node.drained().await.is_err());
    drop(delete);
    assert!(node.drained().await.is_ok());
}

/// The receiver completes once, and a panic may leave the set of futures empty.
#[tokio::test]
async fn closing_task_ends_after_a_panic_too() {
    let (unassigned, events) = (unbounded_channel().1, unbounded_channel().1);
    let mut task = ClusterTask::new(unassigned, events, state());
    let (client, mut gone) = oneshot::channel();
    drop(client);
    (&mut gone).await.unwrap_err();
    task.closing = true;
    timeout(Duration::from_secs(20), task.run(gone)).await.expect("the task ends");
}
