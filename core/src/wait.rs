//! Waiting: an arrival-order queue inside the process, and delays between rounds.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Callers of one process who want the same keys, in order of arrival. Only the first asks the nodes.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    next: u64,
    by_key: HashMap<String, VecDeque<u64>>,
    wakers: HashMap<u64, Waker>,
}

/// A place in the line of each key; leaving, in whatever way, lets the next one on.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    keys: Arc<[String]>,
    id: u64,
}

impl Queue {
    /// Joins the lines of all keys in one step, so that two callers can never wait for each other.
    pub(crate) fn join(self: &Arc<Self>, keys: &Arc<[String]>) -> Ticket {
        let mut lines = self.lines();
        let id = lines.next;
        lines.next += 1;
        for key in keys.iter() {
            match lines.by_key.get_mut(key) {
                Some(line) => line.push_back(id),
                None => drop(lines.by_key.insert(key.clone(), VecDeque::from([id]))),
            }
        }
        drop(lines);
        Ticket { queue: Arc::clone(self), keys: Arc::clone(keys), id }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Whether this caller is first in every line.
    pub(crate) fn is_head(&self) -> bool {
        self.heads(&self.queue.lines())
    }

    fn heads(&self, lines: &Lines) -> bool {
        self.keys
            .iter()
            .all(|key| lines.by_key.get(key).and_then(VecDeque::front) == Some(&self.id))
    }

    /// Ends when this caller is first in every line.
    pub(crate) async fn turn(&self) {
        poll_fn(|cx| {
            let mut lines = self.queue.lines();
            if self.heads(&lines) {
                return Poll::Ready(());
            }
            lines.wakers.insert(self.id, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut lines = self.queue.lines();
        lines.wakers.remove(&self.id);
        let mut woken = Vec::new();
        for key in self.keys.iter() {
            let Some(line) = lines.by_key.get_mut(key) else {
                continue;
            };
            line.retain(|id| *id != self.id);
            match line.front().copied() {
                Some(next) => woken.extend(lines.wakers.remove(&next)),
                None => drop(lines.by_key.remove(key)),
            }
        }
        drop(lines);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Growing, jittered delays: contenders that met once do not meet again in step.
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    pub(crate) fn delay(&mut self) -> Duration {
        let full = self.next;
        self.next = (full.mul_f64(1.5)).min(self.longest);
        jittered(full)
    }
}

/// Between half of it and all of it, at random.
pub(crate) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}
