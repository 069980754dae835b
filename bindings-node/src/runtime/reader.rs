//! Reads the replies to this thread's calls, when its event loop reports that data is readable.

use std::sync::Arc;

use super::host::Host;
use super::thread_state::ThreadState;
use crate::outcome::Ended;

impl ThreadState {
    /// Returns where the futures of this thread run. Chosen at the first call.
    pub(super) fn host(&self) -> &Host {
        self.host.get_or_init(|| {
            let thread = self.me.clone();
            let on_readable =
                move || thread.upgrade().into_iter().for_each(|thread| thread.read_replies());
            let host = self
                .turns
                .as_ref()
                .and_then(|turns| Host::on_event_loop(turns.uv, self.env, on_readable));
            host.unwrap_or_else(|| Host::on_background_thread(Arc::clone(&self.event_loop)))
        })
    }

    /// Reads what is available on the connections of this thread. Returns the outcomes so far.
    pub(super) fn read_outcomes(&self) -> Vec<Ended> {
        self.host.get().map_or(Vec::new(), |host| host.driver.read_available().0)
    }

    /// Reads and delivers outcomes when the loop reports readable data.
    fn read_replies(&self) {
        let done = self.read_outcomes();
        if let Some(turns) = self.turns.as_ref().filter(|_| !done.is_empty()) {
            self.event_loop.add(done);
            turns.run(|| self.deliver());
            self.keep_alive();
        }
    }
}
