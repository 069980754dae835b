//! Reads the commands of a client, for servers that reply something unusual.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// The arguments of one command. `None` once the client has disconnected.
pub(crate) fn command(asked: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(asked)? {
        let mut word = vec![0; number(asked)? + 2];
        asked.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}

/// The number in a line such as `*3`.
fn number(asked: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    asked.read_line(&mut line).ok()?;
    line.trim().get(1..)?.parse().ok()
}
