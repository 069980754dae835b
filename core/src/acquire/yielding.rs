//! Lets other clients ask first if they want the keys too.

use std::time::Duration;

use super::acquirer::Acquirer;
use super::attempt::Attempt;
use crate::clock::Clock;

impl Attempt<'_> {
    /// Before the first round: where others want the keys, too, they may ask first.
    pub(super) async fn let_others_ask(&mut self, clock: &dyn Clock) {
        if !self.time_for_two() {
            // Over a link of 30 ms, a pause within 45 ms would leave a free lock no time for its round.
            return self.outlook.expect_less();
        }
        let known = self.acquirer.contention.yield_delay(&self.request.keys);
        if known.is_some() {
            self.outlook.expect_less();
        }
        self.step_back(known.or_else(|| self.breath()), clock).await;
    }

    /// The same without known contention, now and then.
    ///
    /// A client that takes a lock again right after releasing it asks before the others are notified. It is never
    /// refused, so it does not learn of them. Of two processes on one core, 5 ms a turn, one had all 318 turns of two
    /// seconds. Callers in line behind it in the same process do the same. 192 turns of 16 callers went before the
    /// first one of another process.
    fn breath(&self) -> Option<Duration> {
        let Acquirer { leases, contention, .. } = self.acquirer;
        let times = contention.takes_again()?;
        let now = leases.nodes.clock.now();
        // Longer each time that no other client came, because others may be farther from the nodes.
        let factor = leases.again.has_lasted(&self.request.keys, now, times)?;
        Some(contention.pause() * factor)
    }

    /// Before a further round, after a notification that the keys are free.
    pub(super) async fn defer(&self) {
        if !self.time_for_two() {
            return;
        }
        let Acquirer { leases, contention, .. } = self.acquirer;
        let nodes = &leases.nodes;
        // Over several nodes, where every asker costs the others a round, newcomers let those ask first who have lost a
        // race already.
        let newcomer = nodes.list.len() > 1 && self.outlook.is_newcomer();
        let known = newcomer.then(|| contention.yield_delay(&self.request.keys)).flatten();
        self.step_back(known.or_else(|| self.breath()), &*nodes.clock).await;
    }

    async fn step_back(&self, pause: Option<Duration>, clock: &dyn Clock) {
        if let Some(pause) = pause {
            clock.sleep_until(clock.now() + pause.min(self.left() / 2)).await;
        }
    }
}
