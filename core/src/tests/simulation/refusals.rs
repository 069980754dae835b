//! Errors of a server that cannot run some commands for a while.

use super::clock::Time;
use super::commands::{keys, writes};
use super::logins::RENEWED_AFTER;
use super::resp::Reply;
use super::scripts;
use super::world::World;

/// Why a server refuses commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A script runs for too long.
    Busy,
    /// It reads its data from the disk.
    Loading,
    /// It cannot write to the disk.
    NoDisk,
    /// Its memory is full.
    NoMemory,
    /// It accepts no more connections. Those that exist work.
    NoConnection,
    /// It refuses each login.
    NoLogin,
}

impl Refusal {
    /// The error for a command that the server does not run.
    fn error(self, words: &[&str]) -> Option<Reply> {
        let deletes = matches!(words, ["DEL", ..])
            || matches!(words, ["EVALSHA", digest, ..] if scripts::deletes(digest));
        let about_connection = matches!(words, ["HELLO" | "AUTH" | "CLIENT", ..]);
        let (refused, text) = match self {
            Self::Busy => (
                !about_connection,
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            ),
            Self::Loading => (
                !about_connection && words[0] != "INFO",
                "LOADING Redis is loading the dataset in memory",
            ),
            Self::NoDisk => (
                !keys(words).is_empty() && writes(words),
                "MISCONF Errors writing to the AOF file: No space left on device",
            ),
            Self::NoMemory => (
                !keys(words).is_empty() && writes(words) && !deletes,
                "OOM command not allowed when used memory > 'maxmemory'.",
            ),
            Self::NoConnection | Self::NoLogin => return None,
        };
        refused.then(|| Reply::error(text))
    }
}

/// The longest pause between two attempts to delete a key, plus a second.
const DELETED_AFTER: Time = 9_000 * super::world::MS;

impl World {
    pub(super) fn refuse(&mut self, place: usize, refusal: Refusal, length: Time) {
        let until = self.now + length;
        let server = &mut self.servers[place];
        server.refuses = Some((refusal, until));
        server.refuses_until = server.refuses_until.max(until);
        if refusal == Refusal::NoLogin {
            server.refuses_until += RENEWED_AFTER;
            self.logins_refused = self.logins;
        }
    }

    /// The server's current refusal.
    pub(super) fn refusal(&self, place: usize) -> Option<Refusal> {
        let (refusal, until) = self.servers[place].refuses?;
        (self.now < until).then_some(refusal)
    }

    /// The error for a command that the server does not run.
    pub(super) fn refused(&self, place: usize, words: &[&str]) -> Option<Reply> {
        self.refusal(place)?.error(words)
    }

    /// Counts a delete whose script the server does not know. It is repeated after the script was loaded. If the
    /// scripts are gone again by then, the server has refused the delete.
    pub(super) fn unknown_delete(&mut self, place: usize, tokens: &[&str]) {
        for token in tokens {
            if !self.unknown_deletes.insert((place, (*token).to_owned())) {
                let server = &mut self.servers[place];
                server.refuses_until = server.refuses_until.max(self.now);
            }
        }
    }

    /// When a delete that the server refused has been sent again.
    pub(super) fn deletes_again(&self, place: usize) -> Time {
        match self.servers[place].refuses_until {
            0 => 0,
            until => until + DELETED_AFTER,
        }
    }
}
