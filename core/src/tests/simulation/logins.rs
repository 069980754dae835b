//! Logins that expire: the program's callback for credentials, and the server's checks.
//!
//! A password is the time at which the login with it ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::node::credentials::{Ask, Credentials};
use crate::node::{CONNECT_TIMEOUT, SharedSettings, TlsOptions};

use super::clock::Time;
use super::refusals::Refusal;
use super::resp::Reply;
use super::world::{MS, World};

/// The user of all clients.
const USER: &str = "app";

/// The options of a client whose logins last for this time.
pub(super) fn expiring(world: &Arc<Mutex<World>>, lifetime: Duration) -> SharedSettings {
    let world = Arc::clone(world);
    let source: Arc<Ask> = Arc::new(move |(), answer| {
        let now = world.lock().unwrap().now;
        let until = now + u64::try_from(lifetime.as_nanos()).unwrap();
        answer.send(Ok(Credentials::new(until.to_string()).user(USER).lifetime(lifetime)));
    });
    SharedSettings::new(TlsOptions::default(), None, Some(source), CONNECT_TIMEOUT, None)
}

/// How long a renewal may take after the server has refused another one: the pause before the next attempt.
pub(super) const RENEWED_AFTER: Time = 1_500 * MS;

impl World {
    /// Logs a connection in. Returns the error of a server that refuses it.
    pub(super) fn log_in(&mut self, conn: usize, place: usize, words: &[&str]) -> Option<Reply> {
        let (user, password) = match words {
            ["AUTH", user, password] | ["HELLO", _, "AUTH", user, password, ..] => {
                (*user, *password)
            }
            _ => return None,
        };
        let until: Time = password.parse().unwrap_or(0);
        let refuses = self.refusal(place) == Some(Refusal::NoLogin);
        if refuses || user != USER || until <= self.now {
            return Some(Reply::error(
                "WRONGPASS invalid username-password pair or user is disabled.",
            ));
        }
        self.conns[conn].state.login_until = until;
        None
    }

    /// The error for a command of a connection without a valid login. Some servers close the connection instead.
    pub(super) fn not_logged_in(&mut self, conn: usize) -> Option<Reply> {
        let until = self.conns[conn].state.login_until;
        if !self.logins || self.now < until {
            return None;
        }
        if until > 0 && conn.is_multiple_of(2) {
            self.close(conn);
        }
        Some(Reply::error("NOAUTH Authentication required."))
    }
}
