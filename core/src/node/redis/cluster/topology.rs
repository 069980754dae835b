//! Which server has which slots, as one of them says: the answer to `CLUSTER SLOTS`.
//!
//! Pure. It is what one server knew at that moment: a newer one, or the slot's owner, may say otherwise.

use redis::Value;

use super::super::reply;
use super::super::strays::Address;
use crate::node::{Fault, SLOTS};

/// Slots that one server has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The first slot of the range.
    pub(super) first: u16,
    /// The last one, which is part of it.
    pub(super) last: u16,
    /// The master.
    pub(super) owner: Address,
    /// Who may take its place.
    pub(super) replicas: Vec<Address>,
}

/// The slots of a cluster as the server at `from` tells of them.
pub(super) fn ranges(answer: &Value, from: &Address) -> Result<Vec<Range>, Fault> {
    match answer {
        Value::Array(rows) => {
            let ranges: Option<Vec<Range>> = rows.iter().map(|row| range(row, from)).collect();
            ranges.ok_or_else(|| reply::unexpected(answer))
        }
        Value::ServerError(error) => {
            let said = error.details().unwrap_or_default();
            Err(if said.contains("cluster support disabled") {
                Fault::invalid(
                    "it is a server that stands alone, of no Redis Cluster: use redis://host:port",
                )
            } else {
                reply::unexpected(answer)
            })
        }
        other => Err(reply::unexpected(other)),
    }
}

/// One row of the answer: slots, their owner, then its replicas, which are not asked for anything.
fn range(row: &Value, from: &Address) -> Option<Range> {
    let Value::Array(parts) = row else { return None };
    let [Value::Int(first), Value::Int(last), servers @ ..] = &parts[..] else { return None };
    let slot = |number: &i64| u16::try_from(*number).ok().filter(|slot| *slot < SLOTS);
    let (first, last) = (slot(first)?, slot(last)?);
    let (owner, replicas) = servers.split_first()?;
    Some(Range {
        first,
        last,
        owner: address(owner, from)?,
        replicas: replicas.iter().filter_map(|replica| address(replica, from)).collect(),
    })
}

/// A server's preferred address; `None` where it does not know it.
fn address(server: &Value, from: &Address) -> Option<Address> {
    let Value::Array(parts) = server else { return None };
    let [host, Value::Int(port), ..] = &parts[..] else { return None };
    let port = u16::try_from(*port).ok().filter(|port| *port != 0)?;
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        Value::Nil => "",
        _ => return None,
    };
    match host {
        "?" => None,
        // As the one who says so was reached.
        "" => Some(Address::new(&from.host, port)),
        host => Some(Address::new(host, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Range>, Fault> {
        let value = redis::parse_redis_value(text.as_bytes()).unwrap();
        ranges(&value, &Address::new("seed", 1))
    }

    #[test]
    fn owners_and_replicas_are_read_and_what_is_not_known_is_left_out() {
        let server = |host: &str, port| format!("*3\r\n{host}\r\n:{port}\r\n$2\r\nid\r\n");
        let text = format!(
            "*2\r\n*4\r\n:0\r\n:99\r\n{}{}*4\r\n:100\r\n:16383\r\n{}{}",
            server("$2\r\nH1", 7000),
            server("$1\r\n?", 7001),
            server("$0\r\n", 7002),
            server("$-1", 7003),
        );
        let at = |host: &str, port| Address::new(host, port);
        let expected = [
            Range { first: 0, last: 99, owner: at("h1", 7000), replicas: vec![] },
            Range {
                first: 100,
                last: 16383,
                owner: at("seed", 7002),
                replicas: vec![at("seed", 7003)],
            },
        ];
        assert_eq!(read(&text).unwrap(), expected);
        assert_eq!(read("*0\r\n").unwrap(), []);
    }

    #[test]
    fn what_is_no_topology_is_a_fault() {
        assert!(
            read("-ERR This instance has cluster support disabled\r\n").unwrap_err().is_invalid()
        );
        for odd in
            ["-NOPERM no\r\n", "+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*0\r\n"]
        {
            assert!(!read(odd).unwrap_err().is_invalid(), "{odd}");
        }
    }
}
