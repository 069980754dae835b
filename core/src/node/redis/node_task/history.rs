//! The results of the connections and attempts so far, and how soon another attempt follows.
//!
//! The first attempt after a connection that worked follows after a short pause. Each failure doubles the pause. So
//! does a connection that opened and did not work: a replica, or a proxy without its server, may accept each connection
//! and end it at the first command of a lock.

use std::time::Duration;

use crate::clock::Instant;

/// The pause after the first failure. It doubles with each further failure, up to [`LONGEST_PAUSE`].
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause, and thus the time to detect that a server is available again, even without commands. It leaves
/// time for the connection and a vote within a second.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// How long commands start no new attempt after one that they started: a minimum, and a multiple of its duration. If a
/// node is known to be down, frequent commands fail immediately.
const CALM: (Duration, u32) = (Duration::from_millis(200), 10);
/// After this time without commands, the next command starts an attempt. Otherwise an idle client would report a server
/// as down for up to a second after its return.
const IDLE: Duration = Duration::from_millis(2500);

/// What is known about the last connections and attempts.
#[derive(Default)]
pub(super) struct History {
    /// The pause before the next attempt.
    pause: Duration,
    /// Whether the last connection or attempt reached a server that is of no use.
    useless: bool,
    /// When the last attempt ended that a command had started, and how long it took.
    tried: Option<(Instant, Duration)>,
    /// When the last command arrived without a connection.
    asked: Option<Instant>,
}

impl History {
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Records that a connection worked. Only then is the history irrelevant for the next outage.
    pub(super) fn worked(&mut self) {
        *self = Self::default();
    }

    /// Records a failed attempt that a command waited for.
    pub(super) fn attempted(&mut self, begun: Option<Instant>, now: Instant) {
        self.tried = begun.map(|begun| (now, now.since(begun))).or(self.tried);
    }

    /// Records a failed attempt, or the end of a connection. Doubles the pause up to `longest`. `useless` means that a
    /// server was reached that is of no use.
    pub(super) fn failed(&mut self, useless: bool, longest: Duration, now: Instant) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, longest);
        self.useless = useless;
        if self.enforces_pause() {
            self.tried = Some((now, Duration::ZERO));
        } else if useless {
            (self.tried, self.asked) = (None, None);
        }
    }

    /// Whether the last connection or attempt reached a server that is of no use.
    pub(super) fn is_useless(&self) -> bool {
        self.useless
    }

    /// Whether commands do not end the pause. They do the first time, because the server may just have been replaced.
    fn enforces_pause(&self) -> bool {
        self.useless && self.pause > FIRST_PAUSE
    }

    /// Counts this time as a part of the pause.
    pub(super) fn paused_for(&mut self, time: Duration) {
        self.pause = self.pause.saturating_sub(time);
    }

    /// Whether a command that arrives now starts another attempt. `waits` means that others wait for one already.
    ///
    /// At most one within [`CALM`], unless there was an idle time. Commands that wait for an attempt to a dead node
    /// wait for its whole duration. They start none to a useless server. Each of its connections causes commands, which
    /// would then cause the next connection.
    pub(super) fn tries_again(&mut self, now: Instant, waits: bool) -> bool {
        // Neither a command nor an attempt for one. A caller that waited for an attempt was not idle.
        let is_past = |at: Instant| now.since(at) > IDLE;
        let idle = self.asked.replace(now).is_none_or(is_past)
            && self.tried.is_none_or(|(tried, _)| is_past(tried));
        let (least, times) = CALM;
        let calm = |took: Duration| least.max(took * times);
        let over = self.tried.is_none_or(|(tried, took)| now.since(tried) > calm(took));
        idle || (over && !waits && !self.enforces_pause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_start(Duration::from_millis(millis))
    }

    /// The pauses in milliseconds after each of these ends of a connection or an attempt.
    fn pauses(history: &mut History, useless: &[bool]) -> Vec<u128> {
        let pause = |useless: &bool| {
            history.failed(*useless, LONGEST_PAUSE, at(0));
            history.pause().as_millis()
        };
        useless.iter().map(pause).collect()
    }

    #[test]
    fn pauses_grow_until_a_connection_works() {
        let mut history = History::default();
        let grown = [20, 40, 80, 160, 320, 640, 800, 800];
        assert_eq!(pauses(&mut history, &[true; 8]), grown);
        history.worked();
        assert_eq!(history.pause(), Duration::ZERO);
        // Neither refused attempts nor useless connections between them start again.
        assert_eq!(
            pauses(&mut history, &[false, true, false, true, true, false, true, true]),
            grown
        );
    }

    /// Commands arrive all the time. Even with the shortest pauses, there are few attempts.
    #[test]
    fn commands_start_no_attempt_to_a_useless_server() {
        let mut history = History::default();
        let (mut now, mut attempts) = (0, 0);
        while now < 5000 {
            history.failed(true, LONGEST_PAUSE, at(now));
            let pause = u64::try_from(history.pause().as_millis()).unwrap();
            let early = (1..=pause / 2).find(|later| history.tries_again(at(now + later), false));
            assert_eq!(early.is_some(), attempts == 0, "the first attempt needs no pause");
            now += early.unwrap_or(pause / 2);
            attempts += 1;
        }
        assert!(attempts <= 18, "{attempts}");
        // The first command after an idle time starts one.
        assert!(!history.tries_again(at(now + 1), false));
        assert!(history.tries_again(at(now + 3000), true));
    }

    /// As at a failover behind a fixed address, and after a restart.
    #[test]
    fn commands_start_an_attempt_after_a_connection_that_worked() {
        let mut history = History::default();
        pauses(&mut history, &[true; 8]);
        history.worked();
        history.failed(false, LONGEST_PAUSE, at(0));
        assert!(history.tries_again(at(0), false) && !history.is_useless());
        // Until the server has started, it refuses connections. Commands try again soon.
        history.attempted(Some(at(0)), at(1));
        history.failed(false, LONGEST_PAUSE, at(1));
        assert!(!history.tries_again(at(200), false));
        assert!(history.tries_again(at(202), false));
    }

    #[test]
    fn time_without_need_of_a_connection_is_part_of_the_pause() {
        let mut history = History::default();
        pauses(&mut history, &[true; 8]);
        history.paused_for(Duration::from_millis(300));
        assert_eq!(history.pause(), Duration::from_millis(500));
        history.paused_for(Duration::from_secs(1));
        assert_eq!(history.pause(), Duration::ZERO);
    }
}
