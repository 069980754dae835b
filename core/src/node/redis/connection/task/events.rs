//! Events of an open connection, other than commands.

use super::ConnectionTask;
use super::notifications::Event;
use super::renewal::Renewal;
use crate::node::Fault;
use crate::node::redis::connection::session::Session;
use crate::node::redis::protocol::InFlight;

impl ConnectionTask<'_> {
    /// Handles an event of the connection for notifications.
    pub(super) async fn notified(&mut self, event: Event) -> Result<(), Fault> {
        match event {
            Event::Opened(redirect) => {
                self.context.redirects += 1;
                self.send(redirect).await;
            }
            Event::Redirected => {
                self.context.redirected();
                self.connection.use_session(Session::share).await;
            }
            Event::Failed(fault) => self.context.not_redirected(&fault),
            Event::Received => {}
            Event::Broken(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Sends a command of the connection itself.
    async fn send(&mut self, command: InFlight) {
        let mut command = Some(command);
        self.connection
            .use_session(|session| command.take().map(|command| session.send(command)))
            .await;
    }

    /// Sends a renewed login, or logs that there is none.
    pub(super) async fn log_in(&mut self, login: Result<InFlight, Fault>) {
        match login {
            Ok(login) => {
                if let Some(notifications) = &mut self.notifications {
                    notifications.log_in(&login.command.bytes).await;
                }
                self.send(login).await;
            }
            Err(fault) => {
                if self.renewal.as_mut().is_some_and(Renewal::is_news) {
                    self.context.warn_of_login(fault);
                }
            }
        }
    }

    /// Checks for silence. Called regularly while the connection is in use.
    pub(super) async fn tick(&mut self) -> Result<(), Fault> {
        let (connection, before) = (self.connection, &mut self.sent);
        let tick = |session: &mut Session| {
            let (silent, sent) = (session.tick(), session.sent());
            let more = std::mem::replace(before, sent) != sent;
            if session.is_silent() {
                // The thread that reads may be suspended, or its loop blocked. Its silence is not the server's.
                connection.end_role();
            } else if !more && !session.is_open() {
                connection.unused();
            }
            silent
        };
        let silent = match (connection.use_session(tick).await.flatten(), &mut self.notifications) {
            (None, Some(notifications)) => notifications.tick().await,
            (silent, _) => silent,
        };
        silent.map_or(Ok(()), Err)
    }
}
