//! The core's state machines of `core/src/node/redis/connection`, over loom's atomics, and their models.

#[allow(dead_code, reason = "the models do not call every function")]
#[path = "../../core/src/node/redis/connection/role.rs"]
mod role;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use role::{Role, Taken};

use crate::runtime::{Exclusive, Visitor};

/// A connection to which threads submit commands, which it writes in its turn.
struct Connection {
    /// Relaxed, so that only the exclusive value orders the threads.
    submitted: AtomicUsize,
    written: Exclusive<usize>,
    calls: AtomicUsize,
}

impl Connection {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            submitted: AtomicUsize::new(0),
            written: Exclusive::new(0),
            calls: AtomicUsize::new(0),
        })
    }

    /// Writes all submitted commands, in the same way as the core. Returns false if another thread is inside.
    fn write(&self, visitor: Visitor) -> bool {
        let mut first = true;
        let mut by = visitor;
        loop {
            let write = |written: &mut usize| *written = self.submitted.load(Ordering::Relaxed);
            let Some(((), visitors)) = self.written.try_with(by, write) else { return !first };
            if visitors.include(Visitor::Task) {
                self.calls.fetch_add(1, Ordering::Relaxed);
            }
            if !visitors.include(Visitor::Thread) {
                return true;
            }
            (first, by) = (false, Visitor::Thread);
        }
    }

    fn submit(&self) {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        self.write(Visitor::Thread);
    }

    fn written(&self) -> usize {
        self.written.try_with(Visitor::Thread, |written| *written).expect("no thread is inside").0
    }
}

#[test]
fn no_visit_is_lost() {
    super::check(3, || {
        let connection = Connection::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let connection = Arc::clone(&connection);
                thread::spawn(move || connection.submit())
            })
            .collect();
        connection.submit();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(connection.written(), 3);
    });
}

/// Without a call, a task that could not enter would wait forever.
#[test]
fn a_task_that_could_not_enter_is_called() {
    super::check(4, || {
        let connection = Connection::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let connection = Arc::clone(&connection);
                thread::spawn(move || connection.submit())
            })
            .collect();
        let entered = connection.write(Visitor::Task);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(entered || connection.calls.load(Ordering::Relaxed) > 0);
        assert_eq!(connection.written(), 2);
    });
}

/// Takes the role, and reads while it has it.
fn read(role: &Role, readers: &AtomicUsize) -> bool {
    let Taken::Role(taken) = role.take() else { return false };
    assert_eq!(readers.fetch_add(1, Ordering::SeqCst), 0, "two threads read");
    readers.fetch_sub(1, Ordering::SeqCst);
    assert!(role.release(taken), "no other thread ends it");
    true
}

#[test]
fn one_thread_at_a_time_has_the_reader_role() {
    super::check(4, || {
        let (role, readers) = (Arc::new(Role::new()), Arc::new(AtomicUsize::new(0)));
        assert!(!read(&role, &readers), "only the background thread reads at first");
        role.share();
        let other = {
            let (role, readers) = (Arc::clone(&role), Arc::clone(&readers));
            thread::spawn(move || read(&role, &readers))
        };
        let (ours, theirs) = (read(&role, &readers), other.join().unwrap());
        assert!(ours || theirs, "one of them has the role");
        assert!(read(&role, &readers), "it is free again");
    });
}

/// A thread that is late to release its role must not release the role of a thread on the next connection.
#[test]
fn the_role_of_an_ended_connection_does_not_affect_the_next_one() {
    super::check(4, || {
        let role = Arc::new(Role::new());
        role.share();
        let Taken::Role(old) = role.take() else { panic!("it is free") };
        let late = {
            let role = Arc::clone(&role);
            thread::spawn(move || role.release(old))
        };
        role.end();
        assert!(!role.is(old) && !role.is_of_thread());
        role.share();
        let Taken::Role(new) = role.take() else { panic!("it is free on the next connection") };
        late.join().unwrap();
        assert!(role.is(new) && role.is_of_thread() && role.release(new));
    });
}
