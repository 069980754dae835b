//! The core's state machines of `core/src/node/redis/connection`, over loom's atomics, and their models.

#[allow(dead_code, reason = "the models do not call every function")]
#[path = "../../core/src/node/redis/connection/role.rs"]
mod role;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use role::{Reader, Role};

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

/// A connection with a server that replies at once.
struct Shared {
    /// The number of submitted commands. Relaxed, so that only the exclusive value and the role order the threads.
    submitted: AtomicUsize,
    session: Exclusive<Session>,
    role: Role,
    /// Whether the task was woken.
    called: AtomicBool,
}

#[derive(Default)]
struct Session {
    written: usize,
    read: usize,
}

impl Session {
    fn is_open(&self) -> bool {
        self.written > self.read
    }
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            submitted: AtomicUsize::new(0),
            session: Exclusive::new(Session::default()),
            role: Role::new(),
            called: AtomicBool::new(true),
        })
    }

    /// Uses the session, and does what others came for, in the same way as the core.
    fn with<T>(&self, visitor: Visitor, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let (result, mut visitors) = self.session.try_with(visitor, act)?;
        loop {
            if visitors.include(Visitor::Task) {
                self.called.swap(true, Ordering::SeqCst);
            }
            if !visitors.include(Visitor::Thread) {
                return Some(result);
            }
            match self.session.try_with(Visitor::Thread, |session| self.run(session, |_| ())) {
                Some(((), others)) => visitors = others,
                None => return Some(result),
            }
        }
    }

    fn write(&self, session: &mut Session) {
        session.written = self.submitted.load(Ordering::Relaxed);
    }

    /// A used of a thread.
    fn run<T>(&self, session: &mut Session, act: impl FnOnce(&mut Session) -> T) -> T {
        let result = act(session);
        self.role.end_if(Reader::Thread, || {
            self.write(session);
            !session.is_open()
        });
        result
    }

    /// Submits a command, and leaves it to the task.
    fn delegate(&self) -> usize {
        let command = self.submitted.fetch_add(1, Ordering::Relaxed) + 1;
        self.leave_to_task();
        command
    }

    fn leave_to_task(&self) {
        self.role.give_to_task();
        self.called.swap(true, Ordering::SeqCst);
    }

    /// Submits a command. Returns the role of this thread, which reads the reply.
    fn submit(&self, known: Option<u64>) -> Option<u64> {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        let known = || known.filter(|known| self.role.is(*known));
        let take = |session: &mut Session| {
            known().or_else(|| if session.is_open() { None } else { self.role.take() })
        };
        let used = |session: &mut Session| self.run(session, take);
        let reads = known().is_some() || self.role.reader() == Reader::Task;
        let role = reads.then(|| self.with(Visitor::Thread, used)).flatten().flatten();
        if role.is_none() {
            self.leave_to_task();
        }
        role
    }

    /// Reads on a thread.
    fn read(&self) {
        let read = |session: &mut Session| session.read = session.written;
        if self.with(Visitor::Thread, |session| self.run(session, read)).is_none() {
            self.leave_to_task();
        }
    }

    /// Has the task work until it is not woken any more.
    fn work(&self) {
        while self.called.swap(false, Ordering::SeqCst) {
            let write = |session: &mut Session| {
                self.role.end_if(Reader::Called, || {
                    self.write(session);
                    true
                });
            };
            self.with(Visitor::Task, write);
            let read = |session: &mut Session| {
                if self.role.reader() != Reader::Thread {
                    session.read = session.written;
                }
            };
            self.with(Visitor::Task, read);
        }
    }
}

/// A thread that is suspended with the reader role reads no reply of another caller.
#[test]
fn the_task_reads_commands_that_are_left_to_it() {
    super::check(3, || {
        let shared = Shared::new();
        let reads = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let known = shared.submit(None);
                // With the role, it is suspended.
                shared.submit(known)
            })
        };
        let leaves = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // As a loop that watches the socket although it has lost the role.
                shared.read();
                shared.delegate()
            })
        };
        shared.work();
        let (role, command) = (reads.join().unwrap(), leaves.join().unwrap());
        shared.work();
        let (read, _) = shared.session.try_with(Visitor::Thread, |session| session.read).unwrap();
        let suspended = role.is_some_and(|role| shared.role.is(role));
        assert!(read >= command, "the command is read");
        assert!(read == 3 || suspended, "every command is read");
    });
}

/// A thread that leaves commands to the task ends the role of another one, also that which begins just then.
#[test]
fn a_role_is_taken_from_a_task_that_was_not_called() {
    super::check(4, || {
        let role = Arc::new(Role::new());
        assert!(role.take().is_none(), "the task has not looked yet");
        role.end_if(Reader::Called, || true);
        let calls = {
            let role = Arc::clone(&role);
            thread::spawn(move || role.give_to_task())
        };
        let taken = role.take();
        calls.join().unwrap();
        assert!(role.reader() == Reader::Called && !taken.is_some_and(|taken| role.is(taken)));
        role.end_if(Reader::Called, || true);
        assert!(role.take().is_some_and(|next| role.is(next) && taken != Some(next)));
    });
}
