//! What happens to an open connection, besides what is asked.

use super::super::in_flight::InFlight;
use super::super::notifications::Event;
use super::super::renewal::Renewal;
use super::super::session::Session;
use super::Keeper;
use crate::node::Fault;

impl Keeper<'_> {
    /// Handles an event of the connection for notifications.
    pub(super) async fn notified(&mut self, event: Event) -> Result<(), Fault> {
        match event {
            Event::Opened(redirect) => {
                let mut redirect = Some(redirect);
                let ask = |session: &mut Session| {
                    session.dialogue.context.redirects += 1;
                    redirect.take().map(|asked| session.ask(asked))
                };
                self.of_session(ask).await;
            }
            Event::Redirected => {
                self.of_session(|session| session.dialogue.context.redirected()).await;
                self.lane.share();
            }
            Event::Failed(fault) => {
                self.of_session(|session| session.dialogue.context.not_redirected(&fault)).await;
            }
            Event::Received => {}
            Event::Broken(fault) => return Err(fault),
        }
        Ok(())
    }

    /// A login that does not last is made anew, or cannot be.
    pub(super) async fn log_in(&mut self, login: Result<InFlight, Fault>) {
        match login {
            Ok(login) => {
                if let Some(notifications) = &mut self.notifications {
                    notifications.log_in(&login.command.bytes).await;
                }
                let mut login = Some(login);
                self.of_session(|session| login.take().map(|asked| session.ask(asked))).await;
            }
            Err(fault) => {
                if self.renewal.as_mut().is_some_and(Renewal::is_news) {
                    let mut fault = Some(fault);
                    let warn = |session: &mut Session| {
                        let context = &session.dialogue.context;
                        fault.take().into_iter().for_each(|fault| context.warn_of_login(fault));
                    };
                    self.of_session(warn).await;
                }
            }
        }
    }

    /// Some time has passed in which it was in use.
    pub(super) async fn tick(&mut self) -> Result<(), Fault> {
        let ticked = self.of_session(|session| {
            let open = session.is_open();
            if open {
                // Whoever waits for it may be suspended, or a loop that somebody blocks: its silence is not the server's.
                session.keep();
            }
            let pipeline = &mut session.dialogue.pipeline;
            let silent = if open { pipeline.count_silence() } else { None };
            (silent, pipeline.counts().0, open)
        });
        let Some((silent, asked, open)) = ticked.await else { return Ok(()) };
        let silent = match (silent, &mut self.notifications) {
            (None, Some(notifications)) => notifications.tick().await,
            (silent, _) => silent,
        };
        if !open && std::mem::replace(&mut self.asked, asked) == asked {
            // Whoever asks next says so.
            self.lane.unwatch();
        }
        silent.map_or(Ok(()), Err)
    }
}
