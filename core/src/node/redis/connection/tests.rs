//! Waits for replies over a connection whose other end the test has.

use std::future::Future;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::role::Reader;
use super::{Connection, Session};
use crate::clock::{Clock, SystemClock};
use crate::drivers::{Driven, RuntimeDriver, about_to_wait, flush, submit, wait};
use crate::node::redis::commands::capabilities::Capabilities;
use crate::node::redis::commands::command::{Command, Purpose};
use crate::node::redis::commands::scripts::ping;
use crate::node::redis::io::socket::Socket;
use crate::node::redis::io::transport::Transport;
use crate::node::redis::protocol::Target;
use crate::node::redis::protocol::{InFlight, Parser, PendingDeletes, Protocol, PushHandler};
use crate::node::redis::state::link::Link;
use crate::node::{Durability, Needs, Watch};
use crate::options::Address;

const LIMIT: Duration = Duration::from_secs(20);
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// Both ends of an open connection.
struct Ends {
    connection: Arc<Connection>,
    commands: UnboundedSender<InFlight>,
    server: UnixStream,
}

impl Ends {
    fn open() -> Self {
        Self::with(false)
    }

    /// `unkilled` means that the previous connection may still exist.
    fn with(unkilled: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let (ours, server) = tokio::net::UnixStream::pair().unwrap();
        let server = server.into_std().unwrap();
        server.set_nonblocking(false).unwrap();
        let socket = Socket::from_transport(Transport::unix(ours).unwrap());
        let Ok(Address::Redis(route)) = Address::parse("redis://127.0.0.1") else { unreachable!() };
        let (key_prefix, durability) = ("lock:".to_owned(), Durability::default());
        let needs = Needs { key_prefix, durability };
        let target = Target::alone(route, Duration::ZERO, needs, Arc::default());
        let clock = Arc::new(SystemClock);
        let (link, watch) = (Arc::new(Link::default()), Arc::new(Watch::new(Arc::default())));
        link.set_used(clock.now());
        let pushes = Arc::new(PushHandler::new(watch, clock.now()));
        let (parser, pending) = (Parser::default(), PendingDeletes::new(link, None));
        let protocol = Protocol::new(
            target,
            parser,
            Duration::ZERO,
            pending,
            Capabilities::default(),
            unkilled.then(|| clock.now()),
            pushes,
        );
        let (commands, taken) = unbounded_channel();
        let session = Session::new(protocol, taken, clock, socket);
        let connection = Arc::new(Connection::new());
        connection.try_use(|place| *place = Some(session)).unwrap();
        Self { connection, commands, server }
    }

    /// Lets threads read.
    fn share(&self) {
        let share = |session: &mut Option<Session>| {
            let session = session.as_mut().unwrap();
            session.share();
            self.connection.write_by_task(session);
        };
        self.connection.try_use(share).unwrap();
    }

    fn driven(&self) -> Arc<dyn Driven> {
        self.connection.clone()
    }

    fn reader(&self) -> Reader {
        self.connection.role.reader()
    }

    /// Sends a command, and completes with the reply.
    fn ping(&self) -> impl Future<Output = ()> {
        let (reply_to, reply) = oneshot::channel();
        let (connection, commands) = (self.driven(), self.commands.clone());
        async move {
            assert!(commands.send(InFlight::new(ping(), reply_to)).is_ok());
            submit(&connection, None);
            reply.await.unwrap().unwrap();
        }
    }
}

/// Reads one command.
fn expect_ping(mut server: &UnixStream) {
    let mut bytes = [0; PING.len()];
    server.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, PING);
}

#[test]
fn waiting_thread_reads_and_releases_the_reader_role() {
    let ends = Ends::open();
    ends.share();
    let mut server = ends.server.try_clone().unwrap();
    let server = thread::spawn(move || {
        expect_ping(&server);
        server.write_all(PONG).unwrap();
    });
    assert!(wait(pin!(ends.ping()), LIMIT).is_ready());
    server.join().unwrap();
    assert!(ends.reader() == Reader::Task, "the thread reads its reply, which ends its role");
}

/// Such a command may be the last one of a client. Nothing else would end its connection.
#[test]
fn session_of_a_client_that_is_gone_ends_after_a_command_without_a_reply() {
    let ends = Ends::open();
    ends.share();
    let ready = Command { purpose: Purpose::Ready, ..ping() };
    assert!(ends.commands.send(InFlight::without_caller(ready)).is_ok());
    drop(ends.commands);
    let write = |session: &mut Option<Session>| {
        let session = session.as_mut().unwrap();
        ends.connection.write_by_task(session);
        session.state()
    };
    assert!(ends.connection.try_use(write).unwrap().idle);
}

#[test]
fn session_of_a_client_that_is_gone_repeats_deletes_while_the_previous_connection_may_exist() {
    for unkilled in [false, true] {
        let ends = Ends::with(unkilled);
        let (token, lifetime) = (Arc::from("ours"), Duration::from_secs(3600));
        let purpose = Purpose::delete(token, lifetime);
        let delete = InFlight::without_caller(Command { purpose, ..ping() });
        assert!(ends.commands.send(delete).is_ok());
        drop(ends.commands);
        let write = |session: &mut Option<Session>| {
            ends.connection.write_by_task(session.as_mut().unwrap());
        };
        ends.connection.try_use(write).unwrap();
        expect_ping(&ends.server);
        (&ends.server).write_all(PONG).unwrap();
        let read = |session: &mut Option<Session>| {
            let session = session.as_mut().unwrap();
            session.read_available();
            session.state()
        };
        let state = ends.connection.try_use(read).unwrap();
        assert!(!state.open && state.gone);
        assert_eq!((state.idle, state.pending_deletes), (!unkilled, unkilled));
    }
}

#[test]
fn thread_without_the_reader_role_is_woken_by_another() {
    let ends = Ends::open();
    let (connection, mut server) = (Arc::clone(&ends.connection), ends.server.try_clone().unwrap());
    let other = thread::spawn(move || {
        assert!(wait(pin!(connection.task_woken()), LIMIT).is_ready());
        server.write_all(PONG).unwrap();
        connection.try_use(|session| {
            let session = session.as_mut().unwrap();
            session.write();
            session.read_available();
        });
        expect_ping(&server);
    });
    assert!(wait(pin!(ends.ping()), LIMIT).is_ready());
    other.join().unwrap();
}

#[test]
fn commands_outside_a_wait_are_sent() {
    let ends = Ends::open();
    ends.share();
    let mut ping = pin!(ends.ping());
    let waits = about_to_wait();
    let poll = ping.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending());
    ends.server.set_nonblocking(true).unwrap();
    assert!((&ends.server).read(&mut [0]).is_err(), "it waits for other commands");
    assert!(ends.reader() == Reader::Task);
    drop(waits);
    expect_ping(&ends.server);
    assert!(ends.reader() == Reader::Called, "the background thread reads the reply");
}

#[test]
fn task_reads_the_replies_to_its_own_commands() {
    let ends = Ends::open();
    ends.share();
    let submit = || {
        assert!(ends.commands.send(InFlight::without_caller(ping())).is_ok());
        ends.connection.submit(None, None)
    };
    assert!(submit().is_some() && ends.reader() == Reader::Thread);
    let by_task = |session: &mut Option<Session>| {
        session.as_mut().unwrap().send(InFlight::without_caller(ping()));
    };
    ends.connection.try_use(by_task).unwrap();
    assert!(ends.reader() == Reader::Called, "the thread with the role may be suspended");
    ends.share();
    assert!(ends.reader() == Reader::Task && submit().is_none(), "replies are outstanding");
    assert!(ends.reader() == Reader::Called);
}

/// The runtime may be blocked long after the command was written.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn background_thread_reads_for_a_runtime_that_is_blocked_before_the_reply() {
    let ends = Ends::open();
    ends.share();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let driver = RuntimeDriver::for_first();
    runtime.block_on(async {
        let (reply_to, _) = oneshot::channel();
        assert!(ends.commands.send(InFlight::new(ping(), reply_to)).is_ok());
        submit(&ends.driven(), Some(&driver));
        flush();
        assert!(ends.reader() == Reader::Thread);
        // The task runs in time after the checks of the command.
        for _ in 0..2 {
            driver.check(&Handle::current());
            yield_now().await;
        }
    });
    let begun = Instant::now();
    while ends.reader() == Reader::Thread {
        assert!(begun.elapsed() < LIMIT, "the blocked runtime still has the reader role");
        thread::yield_now();
    }
}
