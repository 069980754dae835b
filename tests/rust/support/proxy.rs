//! A misbehaving proxy.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::server::url;
use super::spawn_helper;

/// How the proxy treats replies and requests.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    Pass,
    /// No bytes pass in either direction.
    Blackhole,
    /// Requests pass, replies do not.
    DropReplies,
    /// Each reply arrives [`DELAY`] late.
    Delay,
    /// Each reply arrives [`LONG_DELAY`] late.
    LongDelay,
    /// Each reply arrives [`LONGEST_DELAY`] late.
    LongestDelay,
    /// The uptime of each server is negative or not a number.
    Ageless,
    /// No server reports its run id.
    Nameless,
}

pub(crate) const DELAY: Duration = Duration::from_millis(150);
pub(crate) const LONG_DELAY: Duration = Duration::from_millis(400);
pub(crate) const LONGEST_DELAY: Duration = Duration::from_millis(800);

/// How many pieces of replies may be late at the same time.
const IN_FLIGHT: usize = 64;

/// A TCP proxy in front of a server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    leads_to: Arc<AtomicU16>,
    mode: Arc<AtomicU8>,
    refuses: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    /// Connections up to this number lead nowhere.
    forgotten: Arc<AtomicUsize>,
    pub(crate) connections: Arc<AtomicUsize>,
    /// Whether the replies of the first connection are held back.
    held: Arc<(Mutex<bool>, Condvar)>,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            leads_to: Arc::new(AtomicU16::new(port)),
            mode: Arc::new(AtomicU8::new(Mode::Pass as u8)),
            refuses: Arc::default(),
            streams: Arc::default(),
            forgotten: Arc::default(),
            connections: Arc::default(),
            held: Arc::default(),
        };
        let (mode, streams) = (Arc::clone(&proxy.mode), Arc::clone(&proxy.streams));
        let (connections, refuses) = (Arc::clone(&proxy.connections), Arc::clone(&proxy.refuses));
        let (leads_to, forgotten) = (Arc::clone(&proxy.leads_to), Arc::clone(&proxy.forgotten));
        let held = Arc::clone(&proxy.held);
        spawn_helper(move || {
            for client in listener.incoming().flatten() {
                let number = connections.fetch_add(1, Ordering::Relaxed) + 1;
                if refuses.load(Ordering::Relaxed) {
                    continue;
                }
                let server = SocketAddr::from(([127, 0, 0, 1], leads_to.load(Ordering::Relaxed)));
                let Ok(upstream) = TcpStream::connect(server) else { continue };
                let mut open = streams.lock().unwrap();
                open.push(client.try_clone().unwrap());
                open.push(upstream.try_clone().unwrap());
                drop(open);
                let copies = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
                let (there, back) = (Arc::clone(&mode), Arc::clone(&mode));
                let (there_to, back_to) = (Arc::clone(&forgotten), Arc::clone(&forgotten));
                let lost = move |mode: u8| {
                    mode == Mode::Blackhole as u8 || number <= there_to.load(Ordering::Relaxed)
                };
                let held = Arc::clone(&held);
                let dropped = move |mode: u8| {
                    if number == 1 {
                        let (held, changed) = &*held;
                        drop(changed.wait_while(held.lock().unwrap(), |held| *held).unwrap());
                    }
                    mode == Mode::Blackhole as u8
                        || mode == Mode::DropReplies as u8
                        || number <= back_to.load(Ordering::Relaxed)
                };
                std::thread::spawn(move || pump(client, upstream, &there, lost));
                std::thread::spawn(move || pump_back(copies.1, copies.0, &back, dropped));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Redirects new connections to another server, and closes all existing ones.
    pub(crate) fn redirect_to(&self, port: u16) {
        self.leads_to.store(port, Ordering::Relaxed);
        self.reset();
    }

    /// Closes all existing connections. While `refuses` is true, also closes each new one immediately.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
        self.reset();
    }

    /// From now on, existing connections lead nowhere and stay open, as behind a NAT that has lost its table.
    pub(crate) fn forget(&self) {
        self.forgotten.store(self.connections.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Holds back the replies of the first connection. Notifications on the second one pass.
    pub(crate) fn hold(&self) {
        *self.held.0.lock().unwrap() = true;
    }

    /// Delivers the replies that were held back.
    pub(crate) fn let_go(&self) {
        *self.held.0.lock().unwrap() = false;
        self.held.1.notify_all();
    }

    /// Closes every existing connection.
    pub(crate) fn reset(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// How late the replies arrive in this mode.
fn delay(mode: u8) -> Duration {
    let delays =
        [(Mode::Delay, DELAY), (Mode::LongDelay, LONG_DELAY), (Mode::LongestDelay, LONGEST_DELAY)];
    let found = delays.into_iter().find(|(delays, _)| mode == *delays as u8);
    found.map_or(Duration::ZERO, |(_, delay)| delay)
}

/// Reads replies, and passes each on with its mode and the time at which it is due. A server may send a reply in
/// pieces, and each of them is late by the same time, as on a slow network.
fn receive(mut from: TcpStream, mode: &AtomicU8, pass: &SyncSender<(Vec<u8>, u8, Instant)>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mode = mode.load(Ordering::Relaxed);
        let due = Instant::now() + delay(mode);
        if pass.send((buffer[..count].to_vec(), mode, due)).is_err() {
            break;
        }
    }
}

/// Passes the replies of a server on.
fn pump_back(
    from: TcpStream,
    mut to: TcpStream,
    mode: &Arc<AtomicU8>,
    swallow: impl Fn(u8) -> bool,
) {
    let (pass, received) = sync_channel(IN_FLIGHT);
    let known = Arc::clone(mode);
    std::thread::spawn(move || receive(from, &known, &pass));
    for (bytes, before, due) in received {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let late = delay(before) > Duration::ZERO;
        let mode = if late { before } else { mode.load(Ordering::Relaxed) };
        if !write(&mut to, bytes, mode, &swallow) {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Passes requests on.
fn pump(mut from: TcpStream, mut to: TcpStream, mode: &AtomicU8, swallow: impl Fn(u8) -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mode = mode.load(Ordering::Relaxed);
        if !write(&mut to, buffer[..count].to_vec(), mode, &swallow) {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Writes these bytes as the mode requires. Returns false if the other side is gone.
fn write(to: &mut TcpStream, mut bytes: Vec<u8>, mode: u8, swallow: &impl Fn(u8) -> bool) -> bool {
    let (word, at) = match mode {
        mode if mode == Mode::Ageless as u8 => ("uptime_in_seconds:", 18),
        mode if mode == Mode::Nameless as u8 => ("run_id:", 0),
        _ => ("", 0),
    };
    let found = bytes.windows(word.len().max(1)).position(|part| part == word.as_bytes());
    found.into_iter().for_each(|found| bytes[found + at] = b'-');
    swallow(mode) || to.write_all(&bytes).is_ok()
}
