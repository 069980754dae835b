//! The owner of each slot, as servers report it.
//!
//! Parses the replies to `CLUSTER SLOTS` and `CLUSTER NODES` of several servers and compares them. `CLUSTER SLOTS`
//! contains the addresses for clients, `CLUSTER NODES` the epochs for comparing reports.
//!
//! A master that is partitioned from its cluster continues to report itself as an owner. The rule is that of the
//! cluster itself: of several claims to a slot, the one with the largest configuration epoch counts.

use std::collections::{BTreeSet, HashMap};

use redis::Value;

use crate::node::redis::commands::errors::is_unknown;
use crate::node::redis::commands::reply::{self, text};
use crate::node::redis::io::endpoint::ServerAddress;
use crate::node::{Fault, SLOTS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    /// The last slot, inclusive.
    pub(super) last: u16,
    pub(super) owner: ServerAddress,
    pub(super) id: String,
    /// The configuration epoch of the master, or 0 if it is hidden.
    pub(super) epoch: u64,
    pub(super) replicas: Vec<ServerAddress>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct View {
    by: Option<String>,
    /// In the order of their slots.
    pub(super) ranges: Vec<Range>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    pub(super) ranges: Vec<Range>,
    /// Slots with conflicting reports, or with an owner of unknown address, with all servers that claim them or are
    /// named as their owner.
    pub(super) disputed: Vec<(std::ops::RangeInclusive<u16>, Vec<ServerAddress>)>,
}

impl View {
    /// Returns the range with this slot.
    fn range(&self, slot: u16) -> Option<&Range> {
        let behind = self.ranges.partition_point(|range| range.first <= slot);
        self.ranges[..behind].last().filter(|range| range.last >= slot)
    }
}

impl Topology {
    pub(super) fn disputes(&self, slot: u16) -> bool {
        self.disputed.iter().any(|(slots, _)| slots.contains(&slot))
    }

    /// Returns why no server is known for this slot.
    pub(super) fn fault(&self, slot: u16) -> Fault {
        Fault::new(if self.disputes(slot) {
            format!(
                "the cluster's servers disagree about the server of the hash slot {slot}, or it announces no host \
                name (see cluster-announce-hostname)"
            )
        } else {
            format!("no server of the cluster has the hash slot {slot}")
        })
    }
}

/// Parses the slots that the server at `from` reports. Epochs are missing if the user may not run `CLUSTER NODES`.
pub(super) fn view(slots: &Value, nodes: &Value, from: &ServerAddress) -> Result<View, Fault> {
    let (by, epochs) = epochs(&text(nodes));
    let mut ranges = ranges(slots, from)?;
    for range in &mut ranges {
        range.epoch = epochs.get(&range.id).copied().unwrap_or_default();
    }
    Ok(View { by, ranges })
}

/// Returns the ID of the replying server, and the configuration epoch of each server.
fn epochs(nodes: &str) -> (Option<String>, HashMap<String, u64>) {
    let (mut by, mut epochs) = (None, HashMap::new());
    for line in nodes.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, _, flags, _, _, _, epoch, ..] = words[..] else { continue };
        epochs.extend(epoch.parse().ok().map(|epoch| (id.to_owned(), epoch)));
        if flags.split(',').any(|flag| flag == "myself") {
            by = Some(id.to_owned());
        }
    }
    (by, epochs)
}

pub(super) fn compare(views: &[View]) -> Topology {
    let all = views.iter().flat_map(|view| &view.ranges);
    // All slots between two of these boundaries have the same reports.
    let places: BTreeSet<u16> = all.flat_map(|range| [range.first, range.last + 1]).collect();
    let mut topology = Topology::default();
    for (&first, next) in places.iter().zip(places.iter().skip(1)) {
        let last = next - 1;
        let claims: Vec<_> = views.iter().map(|view| view.range(first)).collect();
        let reports: Vec<SlotReport<&str>> = views
            .iter()
            .zip(&claims)
            .map(|(view, claim)| (view.by.as_deref(), claim.map(|claim| (&*claim.id, claim.epoch))))
            .collect();
        let named = || claims.iter().flatten().filter(|range| !range.owner.is_unknown());
        let disputed = || (first..=last, named().map(|range| range.owner.clone()).collect());
        match ruling(&reports) {
            Ruling::Owner(id) => {
                // An older report may have an address that the server no longer has.
                let range = named().rev().filter(|range| range.id == id);
                let range = range.max_by_key(|range| range.epoch);
                match range.map(|range| Range { first, last, ..Range::clone(range) }) {
                    Some(range) => topology.ranges.push(range),
                    None => topology.disputed.push(disputed()),
                }
            }
            Ruling::Disputed => topology.disputed.push(disputed()),
            Ruling::Unassigned => {}
        }
    }
    topology
}

/// The report of one server about a slot: its own ID, if known, and the ID and configuration epoch of the owner.
pub(crate) type SlotReport<Id> = (Option<Id>, Option<(Id, u64)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling<Id> {
    Owner(Id),
    Unassigned,
    /// The servers contradict each other, and no claim is newer than the others.
    Disputed,
}

/// Compares reports. A claim counts only if its server makes the same claim, where that server was asked. Among claims
/// with the same epoch, the one with the most reports counts. All servers that hide their epochs have the epoch 0.
pub(crate) fn ruling<Id: Copy + Eq>(reports: &[SlotReport<Id>]) -> Ruling<Id> {
    let claims = || reports.iter().filter_map(|(_, claim)| *claim);
    let owner = |claim: &Option<(Id, u64)>| claim.map(|(owner, _)| owner);
    let denied =
        |id: Id| reports.iter().any(|(by, claim)| *by == Some(id) && owner(claim) != Some(id));
    let weight = |id: Id, epoch: u64| (epoch, claims().filter(|(owner, _)| *owner == id).count());
    let sound =
        || claims().filter(|(id, _)| !denied(*id)).map(|(id, epoch)| (id, weight(id, epoch)));
    let Some((best, most)) = sound().max_by_key(|(_, weight)| *weight) else {
        return if claims().next().is_none() { Ruling::Unassigned } else { Ruling::Disputed };
    };
    let tie = sound().any(|(id, weight)| id != best && weight == most);
    if tie { Ruling::Disputed } else { Ruling::Owner(best) }
}

fn ranges(reply: &Value, from: &ServerAddress) -> Result<Vec<Range>, Fault> {
    match reply {
        // More rows are not valid.
        Value::Array(rows) if rows.len() <= usize::from(SLOTS) => {
            let ranges: Option<Vec<Range>> = rows.iter().map(|row| range(row, from)).collect();
            let mut ranges = ranges.ok_or_else(|| reply::unexpected(reply))?;
            ranges.sort_by_key(|range| range.first);
            Ok(ranges)
        }
        Value::ServerError(error) => {
            let said = error.details().unwrap_or_default();
            Err(if said.contains("cluster support disabled") || is_unknown(error) {
                Fault::invalid(
                    "it is a standalone server and not part of a Redis Cluster. Use redis://host:port \
                     (rediss:// with TLS)",
                )
            } else {
                reply::unexpected(reply)
            })
        }
        other => Err(reply::unexpected(other)),
    }
}

/// Parses one row: the slots, their owner and its replicas.
fn range(row: &Value, from: &ServerAddress) -> Option<Range> {
    let Value::Array(parts) = row else { return None };
    let [Value::Int(first), Value::Int(last), servers @ ..] = &parts[..] else { return None };
    let slot = |number: &i64| u16::try_from(*number).ok().filter(|slot| *slot < SLOTS);
    let (first, last) = (slot(first)?, slot(last)?);
    let (owner, replicas) = servers.split_first()?;
    let id = match owner {
        Value::Array(parts) => parts.get(2).map(text).unwrap_or_default(),
        _ => String::new(),
    };
    let owner = if hides_host(owner) { ServerAddress::unknown() } else { address(owner, from)? };
    Some(Range {
        first,
        last,
        id: if id.is_empty() { owner.to_string() } else { id },
        owner,
        epoch: 0,
        replicas: replicas.iter().filter_map(|replica| address(replica, from)).collect(),
    })
}

/// Whether clients should use the host name of a server, and it announces none (`cluster-announce-hostname`).
fn hides_host(server: &Value) -> bool {
    matches!(server, Value::Array(parts) if parts.first().is_some_and(|host| text(host) == "?"))
}

/// Returns the preferred address of a server, or `None` if the server does not know it.
fn address(server: &Value, from: &ServerAddress) -> Option<ServerAddress> {
    let Value::Array(parts) = server else { return None };
    let [host, Value::Int(port), ..] = &parts[..] else { return None };
    let port = u16::try_from(*port).ok().filter(|port| *port != 0)?;
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    (host != "?").then(|| ServerAddress::new(host, port).announced_by(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_ranges(text: &str) -> Result<Vec<Range>, Fault> {
        let value = redis::parse_redis_value(text.as_bytes()).unwrap();
        ranges(&value, &ServerAddress::new("seed", 1))
    }

    fn range(first: u16, last: u16, owner: u16, epoch: u64) -> Range {
        let (id, owner) = (owner.to_string(), ServerAddress::new("h", owner));
        Range { first, last, owner, id, epoch, replicas: vec![] }
    }

    fn view(by: &str, ranges: Vec<Range>) -> View {
        View { by: Some(by.to_owned()), ranges }
    }

    #[test]
    fn newer_epoch_overrides_a_cut_off_master() {
        let stale = view("1", vec![range(0, 99, 1, 1), range(100, 16_383, 2, 2)]);
        let newer = view("2", vec![range(0, 99, 4, 7), range(100, 16_383, 2, 2)]);
        let expected = [range(0, 99, 4, 7), range(100, 16_383, 2, 2)];
        for views in [[&stale, &newer], [&newer, &stale]] {
            let views = views.map(|view| View { by: view.by.clone(), ranges: view.ranges.clone() });
            assert_eq!(compare(&views).ranges, expected);
        }
    }

    #[test]
    fn address_of_an_owner_is_that_of_its_newest_epoch() {
        let stale = view("2", vec![range(0, 99, 1, 1)]);
        let moved = Range { owner: ServerAddress::new("h", 9), ..range(0, 99, 1, 3) };
        let newer = view("3", vec![moved.clone()]);
        assert_eq!(compare(&[stale, newer]).ranges, [moved]);
    }

    #[test]
    fn only_the_disagreeing_slot_is_disputed() {
        let one = view("1", vec![range(0, 6, 1, 1), range(7, 7, 2, 2), range(8, 99, 1, 1)]);
        let two = view("2", vec![range(0, 99, 1, 1)]);
        let topology = compare(&[one, two]);
        let owners = vec![ServerAddress::new("h", 2), ServerAddress::new("h", 1)];
        assert_eq!(topology.disputed, [(7..=7, owners)]);
        assert_eq!(topology.ranges, [range(0, 6, 1, 1), range(8, 99, 1, 1)]);
    }

    #[test]
    fn rows_may_have_any_order() {
        let row = |first, last, port: u16| {
            format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$1\r\nh\r\n:{port}\r\n$1\r\n{port}\r\n")
        };
        let text = format!("*2\r\n{}{}", row(100, 199, 2), row(0, 49, 1));
        let topology = compare(&[view("1", parse_ranges(&text).unwrap())]);
        assert_eq!(topology.ranges, [range(0, 49, 1, 0), range(100, 199, 2, 0)]);
    }

    #[test]
    fn epochs_are_optional() {
        let nodes = "a1 10.0.0.1:6379@16379,host myself,master - 0 0 7 connected 0-99\n\
                     b2 10.0.0.2:6379@16379 master,fail? - 0 1 12 disconnected [5->-a1]\n";
        let (by, all) = epochs(nodes);
        assert_eq!(by.as_deref(), Some("a1"));
        assert_eq!(all, HashMap::from([("a1".to_owned(), 7), ("b2".to_owned(), 12)]));
        assert_eq!(epochs(""), (None, HashMap::new()));
    }

    #[test]
    fn reads_owners_and_replicas_without_unknown_hosts() {
        let server = |host: &str, port| format!("*3\r\n{host}\r\n:{port}\r\n$2\r\nid\r\n");
        let text = format!(
            "*2\r\n*4\r\n:0\r\n:99\r\n{}{}*4\r\n:100\r\n:16383\r\n{}{}",
            server("$2\r\nH1", 7000),
            server("$1\r\n?", 7001),
            server("$0\r\n", 7002),
            server("$-1", 7003),
        );
        let at = |host: &str, port| ServerAddress::new(host, port);
        let expected = [
            Range {
                first: 0,
                last: 99,
                owner: at("h1", 7000),
                id: "id".into(),
                epoch: 0,
                replicas: vec![],
            },
            Range {
                first: 100,
                last: 16383,
                owner: at("seed", 7002),
                id: "id".into(),
                epoch: 0,
                replicas: vec![at("seed", 7003)],
            },
        ];
        assert_eq!(parse_ranges(&text).unwrap(), expected);
        assert_eq!(parse_ranges("*0\r\n").unwrap(), []);
    }

    /// Its slots keep their owner. The other servers are used as usual.
    #[test]
    fn slots_of_a_server_without_a_host_name_are_disputed() {
        let text = "*2\r\n*3\r\n:0\r\n:99\r\n*3\r\n$1\r\n?\r\n:7001\r\n$1\r\n1\r\n\
                    *3\r\n:100\r\n:16383\r\n*3\r\n$1\r\nh\r\n:2\r\n$1\r\n2\r\n";
        let hidden = parse_ranges(text).unwrap();
        let topology = compare(&[view("2", hidden.clone())]);
        assert_eq!(topology.disputed, [(0..=99, vec![])]);
        assert_eq!(topology.ranges, [range(100, 16_383, 2, 0)]);
        // Another server knows the address.
        let known = vec![range(0, 99, 1, 0), range(100, 16_383, 2, 0)];
        let topology = compare(&[view("2", hidden), view("1", known.clone())]);
        assert_eq!((topology.ranges, topology.disputed), (known, vec![]));
    }

    #[test]
    fn invalid_topology_is_an_error() {
        assert!(
            parse_ranges("-ERR This instance has cluster support disabled\r\n")
                .unwrap_err()
                .permanent()
                .is_some()
        );
        for odd in
            ["-NOPERM no\r\n", "+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*0\r\n"]
        {
            assert!(parse_ranges(odd).unwrap_err().permanent().is_none(), "{odd}");
        }
    }

    #[test]
    fn newest_claim_not_denied_by_its_server_wins() {
        let by = |id: u8, owner: u8, epoch: u64| (Some(id), Some((owner, epoch)));
        let owner = Ruling::Owner;
        // Server 1 is partitioned, and server 4 took over.
        assert_eq!(ruling(&[by(1, 1, 1), by(2, 4, 7)]), owner(4));
        assert_eq!(ruling(&[by(1, 1, 1)]), owner(1));
        // A migration from 1 to 2, which 3 does not know about yet.
        assert_eq!(ruling(&[by(1, 2, 2), by(2, 2, 9), by(3, 1, 1)]), owner(2));
        assert_eq!(ruling(&[by(1, 2, 2), by(3, 1, 4)]), owner(2));
        // Each server names the other as the owner.
        assert_eq!(ruling(&[by(1, 2, 2), by(2, 1, 1), by(3, 1, 1)]), Ruling::Disputed);
        // Without epochs, the majority of the servers decides, if there is one.
        assert_eq!(ruling(&[by(1, 1, 0), by(2, 4, 0), by(3, 4, 0)]), owner(4));
        assert_eq!(ruling(&[by(1, 1, 0), by(2, 4, 0)]), Ruling::Disputed);
        assert_eq!(ruling(&[(None, Some((1, 0))), (Some(2), None)]), owner(1));
        assert_eq!(ruling::<u8>(&[(None, None)]), Ruling::Unassigned);
    }
}
