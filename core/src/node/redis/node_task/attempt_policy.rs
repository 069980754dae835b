//! Computes the pause between two attempts to connect, and whether a command waits for one or starts one. No I/O, no
//! clock.
//!
//! The first attempt after a connection that worked follows after a short pause. Each failure doubles the pause. So
//! does a connection that opened and did not work: a replica, or a proxy without its server, may accept each connection
//! and end it at once, or at the first command of a lock.

use std::time::Duration;

use crate::clock::Instant;

/// A command that arrives this soon after the start of an attempt waits for its result, so that simultaneous commands
/// have the same result.
const JOIN_TIME: Duration = Duration::from_millis(50);
/// The pause after the first failure. It doubles with each further failure, up to [`LONGEST_PAUSE`].
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause, and thus the time to detect that a server is available again, even without commands. It leaves
/// time for the connection and a vote within a second.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// How long commands start no new attempt after one that they started: a minimum, and a multiple of its duration. If a
/// node is known to be down, frequent commands fail immediately.
const CALM_AFTER_ATTEMPT: (Duration, u32) = (Duration::from_millis(200), 10);
/// After this time without commands, the next command starts an attempt. Otherwise an idle client would report a server
/// as down for up to a second after its return.
const IDLE_TIME: Duration = Duration::from_millis(2500);
/// The longest pause while a refusal is not confirmed, because callers wait for that.
const DOUBTFUL_PAUSE: Duration = Duration::from_millis(250);
/// A connection worked if it lasted longer than this, and its server voted or nothing was asked of it at its end. The
/// next attempt then follows after the first pause.
///
/// A connection that breaks directly after the handshake must not be reopened continuously. Nor must one whose server
/// accepts connections and ends them at the first command of a lock.
pub(super) const WORKED_AFTER: Duration = Duration::from_secs(1);
/// A connection that lasted longer than this worked, even for a client that only inspects.
const WORKED_UNUSED_AFTER: Duration = Duration::from_secs(60);

/// What follows from a command that arrives without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnCommand {
    /// It fails immediately.
    Refuse,
    /// It waits for the attempt under way.
    Wait,
    /// It starts an attempt, parallel to one under way, and waits for it.
    StartAndWait,
}

/// The results of the last connections and attempts, and what follows from them.
#[derive(Default)]
pub(super) struct AttemptPolicy {
    /// The pause before the next attempt.
    pause: Duration,
    /// Whether the last connection or attempt reached a server that is of no use.
    is_useless: bool,
    /// When the last attempt ended that a command had started, and how long it took.
    tried: Option<(Instant, Duration)>,
    /// When the last command arrived without a connection.
    asked: Option<Instant>,
}

impl AttemptPolicy {
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Records the end of a connection. Returns whether it worked. Only then are earlier results irrelevant for the
    /// next outage. `voted` means that the server ran a vote or a delete, `unused` that nothing was asked of it at its
    /// end.
    pub(super) fn ended(&mut self, lasted: Duration, voted: bool, unused: bool) -> bool {
        let is_useful = voted || unused || lasted > WORKED_UNUSED_AFTER;
        let worked = lasted > WORKED_AFTER && is_useful;
        if worked {
            self.forget();
        }
        worked
    }

    /// Forgets all results, as after a connection that worked.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Records a failed attempt that a command waited for.
    pub(super) fn attempted(&mut self, begun: Option<Instant>, now: Instant) {
        self.tried = begun.map(|begun| (now, now.since(begun))).or(self.tried);
    }

    /// Records a failed attempt, or the end of a connection that did not work. Doubles the pause. `useless` means that
    /// a server was reached that is of no use, `doubtful` that it refused and may not do so again.
    pub(super) fn failed(&mut self, useless: bool, doubtful: bool, now: Instant) {
        let longest = if doubtful { DOUBTFUL_PAUSE } else { LONGEST_PAUSE };
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, longest);
        self.is_useless = useless;
        if self.enforces_pause() {
            self.tried = Some((now, Duration::ZERO));
        } else if useless {
            (self.tried, self.asked) = (None, None);
        }
    }

    /// Whether the last connection or attempt reached a server that is of no use.
    pub(super) fn is_useless(&self) -> bool {
        self.is_useless
    }

    /// Whether commands do not end the pause. They do the first time, because the server may just have been replaced.
    fn enforces_pause(&self) -> bool {
        self.is_useless && self.pause > FIRST_PAUSE
    }

    /// Counts this time as a part of the pause.
    pub(super) fn paused_for(&mut self, time: Duration) {
        self.pause = self.pause.saturating_sub(time);
    }

    /// Decides about a command that arrives now. `begun` is when the last attempt under way started, and `awaited`
    /// means that other commands wait for it.
    pub(super) fn on_command(
        &mut self,
        now: Instant,
        begun: Option<Instant>,
        awaited: bool,
    ) -> OnCommand {
        let is_young = begun.is_some_and(|at| now.since(at) <= JOIN_TIME);
        match (self.starts_another(now, awaited), is_young) {
            // On a slow network, the one under way may succeed first.
            (true, false) => OnCommand::StartAndWait,
            (true, true) => OnCommand::Wait,
            (false, true) if awaited => OnCommand::Wait,
            (false, _) => OnCommand::Refuse,
        }
    }

    /// Whether a command that arrives now starts another attempt. `awaited` means that others wait for one already.
    ///
    /// At most one within [`CALM_AFTER_ATTEMPT`], unless there was an idle time. Commands that wait for an attempt to a
    /// dead node wait for its whole duration. They start none to a useless server. Each of its connections causes
    /// commands, which would then cause the next connection.
    fn starts_another(&mut self, now: Instant, awaited: bool) -> bool {
        // Neither a command nor an attempt for one. A caller that waited for an attempt was not idle.
        let is_past = |at: Instant| now.since(at) > IDLE_TIME;
        let idle = self.asked.replace(now).is_none_or(is_past)
            && self.tried.is_none_or(|(tried, _)| is_past(tried));
        let (least, times) = CALM_AFTER_ATTEMPT;
        let calm = |took: Duration| least.max(took * times);
        let over = self.tried.is_none_or(|(tried, took)| now.since(tried) > calm(took));
        idle || (over && !awaited && !self.enforces_pause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_start(Duration::from_millis(millis))
    }

    /// The pauses in milliseconds after each of these ends of a connection or an attempt.
    fn pauses(policy: &mut AttemptPolicy, useless: &[bool]) -> Vec<u128> {
        let pause = |useless: &bool| {
            policy.failed(*useless, false, at(0));
            policy.pause().as_millis()
        };
        useless.iter().map(pause).collect()
    }

    #[test]
    fn pauses_grow_until_a_connection_works() {
        let mut policy = AttemptPolicy::default();
        let grown = [20, 40, 80, 160, 320, 640, 800, 800];
        assert_eq!(pauses(&mut policy, &[true; 8]), grown);
        assert!(policy.ended(2 * WORKED_AFTER, true, false));
        assert_eq!(policy.pause(), Duration::ZERO);
        // Neither refused attempts nor useless connections between them start again.
        assert_eq!(
            pauses(&mut policy, &[false, true, false, true, true, false, true, true]),
            grown
        );
    }

    /// Commands arrive all the time. Even with the shortest pauses, there are few attempts.
    #[test]
    fn commands_start_no_attempt_to_a_useless_server() {
        let mut policy = AttemptPolicy::default();
        let (mut now, mut attempts) = (0, 0);
        while now < 5000 {
            policy.failed(true, false, at(now));
            let pause = u64::try_from(policy.pause().as_millis()).unwrap();
            let early = (1..=pause / 2).find(|later| policy.starts_another(at(now + later), false));
            assert_eq!(early.is_some(), attempts == 0, "the first attempt needs no pause");
            now += early.unwrap_or(pause / 2);
            attempts += 1;
        }
        assert!(attempts <= 18, "{attempts}");
        // The first command after an idle time starts one.
        assert!(!policy.starts_another(at(now + 1), false));
        assert!(policy.starts_another(at(now + 3000), true));
    }

    /// As at a failover behind a fixed address, and after a restart.
    #[test]
    fn commands_start_an_attempt_after_a_connection_that_worked() {
        let mut policy = AttemptPolicy::default();
        pauses(&mut policy, &[true; 8]);
        assert!(policy.ended(2 * WORKED_AFTER, true, false));
        policy.failed(false, false, at(0));
        assert!(policy.starts_another(at(0), false) && !policy.is_useless());
        // Until the server has started, it refuses connections. Commands try again soon.
        policy.attempted(Some(at(0)), at(1));
        policy.failed(false, false, at(1));
        assert!(!policy.starts_another(at(200), false));
        assert!(policy.starts_another(at(202), false));
    }

    #[test]
    fn time_without_need_of_a_connection_is_part_of_the_pause() {
        let mut policy = AttemptPolicy::default();
        pauses(&mut policy, &[true; 8]);
        policy.paused_for(Duration::from_millis(300));
        assert_eq!(policy.pause(), Duration::from_millis(500));
        policy.paused_for(Duration::from_secs(1));
        assert_eq!(policy.pause(), Duration::ZERO);
    }

    #[test]
    fn connection_works_if_it_lasted_and_served() {
        let (short, long) = (WORKED_AFTER, WORKED_AFTER + Duration::from_millis(1));
        for (lasted, voted, unused, worked) in [
            (short, true, true, false),
            (long, true, false, true),
            (long, false, true, true),
            (long, false, false, false),
            (WORKED_UNUSED_AFTER + short, false, false, true),
        ] {
            let mut policy = AttemptPolicy::default();
            assert_eq!(policy.ended(lasted, voted, unused), worked, "{lasted:?} {voted} {unused}");
        }
    }

    /// After an attempt that a command started, which took `took` and ended 0 ms before.
    #[test]
    fn command_waits_for_a_young_attempt_or_starts_one() {
        use OnCommand::{Refuse, StartAndWait, Wait};
        // Milliseconds since the failed attempt, since the start of the one under way if any, whether commands wait.
        for (now, begun, awaited, decision) in [
            (1, None, false, Refuse),
            (200, None, false, Refuse),
            (201, None, false, StartAndWait),
            (201, None, true, Refuse),
            (201, Some(0), false, Wait),
            (201, Some(50), true, Wait),
            (201, Some(51), true, Refuse),
            (201, Some(51), false, StartAndWait),
            (1, Some(50), true, Wait),
            (1, Some(50), false, Refuse),
            (2501, Some(500), true, StartAndWait),
        ] {
            let mut policy = AttemptPolicy::default();
            // A command just before the attempt, which took no time.
            policy.on_command(at(10_000), None, false);
            policy.attempted(Some(at(10_000)), at(10_000));
            policy.failed(false, false, at(10_000));
            let now = 10_000 + now;
            let begun = begun.map(|age| at(now - age));
            let case = format!("{now} {begun:?} {awaited}");
            assert_eq!(policy.on_command(at(now), begun, awaited), decision, "{case}");
        }
    }

    #[test]
    fn waiting_for_a_failed_attempt_is_no_idle_time() {
        let mut policy = AttemptPolicy::default();
        assert!(policy.starts_another(at(0), false));
        // The attempt takes 5 s, and the command waits for it.
        policy.attempted(Some(at(0)), at(5000));
        assert!(!policy.starts_another(at(5001), false));
        assert!(!policy.starts_another(at(7000), false));
        assert!(policy.starts_another(at(9600), false));
        policy.attempted(Some(at(9600)), at(14_600));
        // Frequent commands start another one after ten times the duration.
        let mut now = 14_600;
        while !policy.starts_another(at(now), false) {
            now += 1000;
        }
        assert_eq!(now, 65_600);
    }
}
