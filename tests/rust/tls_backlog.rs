//! Replies over TLS that wait in the socket, more than the client reads at a time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use redlock::Redlock;

use crate::support::{Certificates, eventually, millis, spawn_helper, trusting};

/// The length of each lock's name, and therefore of each reply.
const NAME: usize = 16 << 10;

/// Relays one connection. On request, it collects the bytes of the server and delivers them all at once.
struct Relay {
    port: u16,
    replies: Arc<Mutex<Replies>>,
}

#[derive(Default)]
struct Replies {
    client: Option<TcpStream>,
    /// The collected bytes, if they are not passed on.
    collected: Option<Vec<u8>>,
    /// Receives the bytes that follow the collected ones, once those were delivered. Later requests are dropped, so
    /// that these bytes are only the rest of the expected replies.
    later: Option<Sender<Vec<u8>>>,
}

impl Relay {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let replies = Arc::new(Mutex::new(Replies::default()));
        let shared = Arc::clone(&replies);
        spawn_helper(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
            shared.lock().unwrap().client = Some(client.try_clone().unwrap());
            let (requests, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let of_requests = Arc::clone(&shared);
            spawn_helper(move || {
                let mut read = vec![0; 64 << 10];
                while let Ok(count @ 1..) = (&requests).read(&mut read) {
                    if of_requests.lock().unwrap().later.is_none() {
                        drop((&to).write_all(&read[..count]));
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
            });
            let mut read = vec![0; 64 << 10];
            while let Ok(count @ 1..) = (&server).read(&mut read) {
                let mut replies = shared.lock().unwrap();
                if let Some(later) = &replies.later {
                    drop(later.send(read[..count].to_vec()));
                } else if let Some(collected) = &mut replies.collected {
                    collected.extend_from_slice(&read[..count]);
                } else {
                    drop((&client).write_all(&read[..count]));
                }
            }
            // The writer of later bytes ends.
            shared.lock().unwrap().later = None;
        });
        Self { port, replies }
    }

    fn collect(&self) {
        self.replies.lock().unwrap().collected = Some(Vec::new());
    }

    fn collected(&self) -> usize {
        self.replies.lock().unwrap().collected.as_ref().unwrap().len()
    }

    /// Puts the collected bytes into the buffers of the connection. The server gets no other request, so no other reply
    /// follows.
    fn deliver(&self) {
        let mut replies = self.replies.lock().unwrap();
        let (later, others) = channel();
        replies.later = Some(later);
        let (bytes, client) = (replies.collected.take().unwrap(), replies.client.take().unwrap());
        let (size, length) = (4_i32 << 20, libc::socklen_t::try_from(size_of::<i32>()).unwrap());
        let fd = client.as_raw_fd();
        // SAFETY: the socket is open, and the value has the type of the option.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const size).cast(),
                length,
            )
        };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            // SAFETY: the bytes are readable for the whole call.
            let sent =
                unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), libc::MSG_DONTWAIT) };
            let Ok(sent @ 1..) = usize::try_from(sent) else { break };
            rest = &rest[sent..];
        }
        // What the system's buffers do not hold follows while the client reads.
        let rest = rest.to_vec();
        spawn_helper(move || {
            for bytes in std::iter::once(rest).chain(others) {
                drop((&client).write_all(&bytes));
            }
        });
    }
}

/// Each number of replies is another amount that remains after the client has read for a while. No other event tells it
/// of the rest.
#[test]
fn reads_all_replies_that_wait_in_the_socket() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("no");
    for count in (3..=84).step_by(3) {
        let relay = Relay::to(port);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let redlock = Redlock::builder([format!("rediss://127.0.0.1:{}", relay.port)])
            .tls(trusting(&certificates.path("ca.crt")))
            .node_timeout(millis(20_000))
            .runtime(runtime.handle().clone())
            .build()
            .unwrap();
        runtime.block_on(async {
            redlock.lock("warm").ttl(millis(60_000)).inspect().await.unwrap();
            relay.collect();
            let inspect = |at: usize| {
                let name = format!("{at}-{}", "x".repeat(NAME));
                let lock = redlock.lock(name).ttl(millis(60_000));
                tokio::spawn(async move { lock.inspect().await })
            };
            let inspected: Vec<_> = (0..count).map(inspect).collect();
            eventually("the server replies", || relay.collected() > count * NAME).await;
            // It blocks the only thread of the runtime, so that all replies wait when the client reads the first.
            relay.deliver();
            for inspected in join_all(inspected).await {
                match inspected.unwrap() {
                    Ok(found) => assert!(!found.held, "{count} replies"),
                    Err(error) => panic!("{count} replies: {:?}", error.nodes()),
                }
            }
        });
    }
}
