//! Tests how a client applies the maps that servers report. No server is involved.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::mpsc::unbounded_channel;

use super::super::strays::Address;
use super::atlas::Atlas;
use super::members::{Maker, Members};
use super::seeds::Seeds;
use super::topology::{Range, Topology};
use super::{Map, Member, RedisNode, Route, queue};
use crate::clock::{Clock, SystemClock};
use crate::node::{Durability, Fault, Needs, Node, Watch, slot};

/// A key in slot 15,495, which the third server has.
const KEY: &str = "a";

fn server(number: u16) -> Address {
    Address::new("server", number)
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

/// Creates the state of a cluster with a restart guard of one minute.
fn atlas() -> Atlas {
    let seeds = Seeds::parse("redis+cluster://server:1").unwrap();
    let (key_prefix, durability, scripts) = ("lock:".to_owned(), Durability::default(), None);
    let needs = Needs { key_prefix, durability, scripts };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let watch = Arc::new(Watch::new(Arc::default()));
    let (to_lobby, ..) = queue(None);
    let place = ("url".to_owned(), Route::to(seeds.first()));
    let node = RedisNode::leading_to(to_lobby, place, &needs, Arc::clone(&clock));
    let map = Map::new(Arc::new(Member { address: None, node }));
    let maker = Maker {
        url: "url".to_owned(),
        seeds,
        guard: Duration::from_secs(60),
        needs,
        run_ids: Arc::default(),
        clock: Arc::clone(&clock),
        watch: Arc::clone(&watch),
        runtime: None,
        strays: unbounded_channel().0,
        astray: std::sync::Weak::new(),
    };
    Atlas::new(Arc::new(ArcSwap::from_pointee(map)), Members::new(maker), clock, watch)
}

/// Applies this result of a survey.
fn learn(atlas: &mut Atlas, ranges: Vec<Range>) {
    learn_of(atlas, Topology { ranges, disputed: Vec::new() });
}

fn learn_of(atlas: &mut Atlas, topology: Topology) {
    atlas.apply(&topology);
    let map = atlas.map.load_full();
    atlas.members.learn(topology, &map, atlas.clock.now());
}

/// Returns why the owner of the key takes no first vote.
fn guard_fault(atlas: &Atlas, key: &str) -> Option<Fault> {
    atlas.map.load().owner(slot(key)).node.guard_fault(key)
}

#[tokio::test]
async fn unknown_promoted_replica_is_guarded() {
    let mut atlas = atlas();
    learn(&mut atlas, thirds([1, 2, 3], [&[], &[], &[]]));
    assert_eq!(guard_fault(&atlas, KEY), None, "the first map takes no slot from anybody");
    learn(&mut atlas, thirds([1, 2, 4], [&[], &[], &[]]));
    let fault = guard_fault(&atlas, KEY).expect("a server that was not known as the master");
    assert!(fault.to_string().contains("replaced another server"), "{fault}");
    // The other servers kept their slots.
    assert_eq!(guard_fault(&atlas, "lock:job"), None);
}

#[tokio::test]
async fn owner_of_an_unassigned_slot_is_guarded() {
    let mut atlas = atlas();
    learn(&mut atlas, thirds([1, 2, 3], [&[], &[], &[4]]));
    let mut without = thirds([1, 2, 3], [&[], &[], &[]]);
    without.pop();
    learn(&mut atlas, without);
    learn(&mut atlas, thirds([1, 2, 4], [&[], &[], &[]]));
    assert!(guard_fault(&atlas, KEY).is_some());
}

#[tokio::test]
async fn master_is_guarded_in_its_new_slots() {
    let mut atlas = atlas();
    learn(&mut atlas, thirds([1, 2, 3], [&[], &[], &[]]));
    atlas.believe(&server(3), slot(KEY), &server(2));
    assert!(guard_fault(&atlas, KEY).is_some());
    let (owner, slots) = (server(2), 5461..10_922);
    let other = (0..99).map(|at| format!("lock:{at}")).find(|key| slots.contains(&slot(key)));
    let map = atlas.map.load_full();
    assert_eq!(map.owner(6000).address.as_ref(), Some(&owner));
    assert_eq!(guard_fault(&atlas, &other.unwrap()), None);
}

#[tokio::test]
async fn disputed_slot_keeps_its_owner_until_a_survey() {
    let mut atlas = atlas();
    let slot = slot(KEY);
    let owner = |atlas: &Atlas| atlas.map.load().owner(slot).address.clone();
    learn(&mut atlas, thirds([1, 2, 3], [&[], &[], &[]]));
    let mut ranges = thirds([1, 2, 3], [&[], &[], &[]]);
    ranges.push(Range { first: slot + 1, ..ranges[2].clone() });
    ranges[2].last = slot - 1;
    let disputed = vec![(slot..=slot, vec![server(2), server(3)])];
    learn_of(&mut atlas, Topology { ranges, disputed });
    assert!(atlas.is_unsettled());
    atlas.believe(&server(3), slot, &server(2));
    assert_eq!(owner(&atlas), Some(server(3)));
    // The disputed owners are asked first, then the other servers.
    let map = atlas.map.load_full();
    let asked = atlas.members.asked(&map, false);
    let asked: Vec<_> = asked.iter().filter_map(|member| member.address.clone()).collect();
    assert_eq!(asked, [server(2), server(3), server(1)]);
    learn(&mut atlas, thirds([1, 2, 3], [&[], &[], &[]]));
    assert!(!atlas.is_unsettled());
    atlas.believe(&server(3), slot, &server(2));
    assert_eq!(owner(&atlas), Some(server(2)));
}
