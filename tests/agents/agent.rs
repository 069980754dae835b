//! A lock holder in Rust that reads one JSON command per line on stdin and writes one JSON reply per line on stdout.
//! `README.md` describes the protocol.

mod candidate;

use redlock::ffi::{self, Unit};
use redlock::{Error, Lease, LeaseHandle, Lock, Redlock};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::time::Duration;

fn main() {
    let mut words = std::env::args().skip(1);
    let nodes = words.next().expect("agent NODES");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if nodes == "candidate" {
        let words: Vec<_> = words.collect();
        let [nodes, name, ttl] = &words[..] else { panic!("agent candidate NODES NAME TTL_MS") };
        let ttl = Duration::from_millis(ttl.parse().expect("milliseconds"));
        return runtime.block_on(candidate::run(nodes, name, ttl)).expect("it campaigns forever");
    }
    let guard = words.next().map_or(0, |ms| ms.parse().expect("milliseconds"));
    let guard = Duration::from_millis(guard);
    let replicas =
        std::env::var("MIN_REPLICAS").map_or(0, |count| count.parse().expect("a number"));
    let builder = Redlock::builder(nodes.split(' ')).restart_guard(guard).min_replicas(replicas);
    // A failover on a busy machine may take longer than the default.
    let client = builder.unavailable_after(None).build().expect("a client");
    let mut agent = Agent { client, lease: None };
    print_reply(&json!({"ready": true, "pid": std::process::id()}));
    for line in std::io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.expect("a line")).expect("a JSON object");
        if command["do"] == "quit" {
            return;
        }
        print_reply(&runtime.block_on(agent.run(&command)));
    }
}

struct Agent {
    client: Redlock,
    lease: Option<Lease>,
}

impl Agent {
    async fn run(&mut self, command: &Value) -> Value {
        let reply = match command["do"].as_str() {
            Some("acquire") => self.acquire(command).await,
            Some("try") => self.try_acquire(command).await,
            Some("attach") => self.attach(command).await,
            Some("extend") => self.extend(command).await,
            Some("release") => self.release().await,
            Some("detach") => Ok(json!({"held": self.handle().detach()})),
            Some("held") => Ok(
                json!({"held": self.handle().is_held(), "remaining_ms": millis(self.handle().remaining())}),
            ),
            Some("inspect") => self.inspect(command).await,
            Some("force_release") => self.force_release(command).await,
            Some("lost") => Ok(self.lost(command).await),
            other => panic!("no such command: {other:?}"),
        };
        stamped(reply)
    }

    async fn acquire(&mut self, command: &Value) -> Result<Value, Error> {
        let wait = command["wait_ms"].as_f64().map(|wait| Duration::from_secs_f64(wait / 1e3));
        let lease = self.lock(command).acquire_within(wait).await?;
        Ok(self.keep(lease))
    }

    async fn try_acquire(&mut self, command: &Value) -> Result<Value, Error> {
        Ok(match self.lock(command).try_acquire().await? {
            Some(lease) => self.keep(lease),
            None => json!({"ok": false, "code": "held", "message": "held by another"}),
        })
    }

    async fn inspect(&self, command: &Value) -> Result<Value, Error> {
        let found = self.lock(command).inspect().await?;
        let (held, mode, taken, limit) = (found.held, found.mode, found.taken, found.limit);
        Ok(json!({"held": held, "mode": mode, "taken": taken, "limit": limit}))
    }

    async fn force_release(&self, command: &Value) -> Result<Value, Error> {
        Ok(json!({"deleted": self.lock(command).force_release().await?}))
    }

    async fn attach(&mut self, command: &Value) -> Result<Value, Error> {
        let token = command["token"].as_str().expect("a token");
        let lease = self.lock(command).attach(token).await?;
        Ok(self.keep(lease))
    }

    async fn extend(&mut self, command: &Value) -> Result<Value, Error> {
        ffi::extend(&self.handle(), command["ttl_ms"].as_f64(), Unit::Milliseconds)?.await?;
        Ok(json!({"remaining_ms": millis(self.handle().remaining())}))
    }

    async fn release(&mut self) -> Result<Value, Error> {
        self.handle().release().await?;
        Ok(json!({}))
    }

    /// Measures the notification itself. `held` is read only after `lost` has completed.
    async fn lost(&mut self, command: &Value) -> Value {
        let limit = Duration::from_millis(command["timeout_ms"].as_u64().expect("timeout_ms"));
        let hold = self.handle();
        let Ok(error) = tokio::time::timeout(limit, hold.lost()).await else {
            return json!({"ok": false, "code": "timeout", "message": "not lost"});
        };
        while hold.is_held() {
            std::hint::spin_loop();
        }
        json!({"at": now(), "reason": error.reason()})
    }

    fn lock(&self, command: &Value) -> Lock {
        let name = command["name"].as_str().expect("a name");
        let fencing = command["fencing"].as_bool().unwrap_or_default();
        let min_hold = command["min_hold_ms"].as_u64().unwrap_or_default();
        let count =
            |field: &str| command[field].as_u64().map(|count| u32::try_from(count).unwrap());
        let lock = match (count("limit"), command["side"].as_str()) {
            (Some(limit), _) => {
                self.client.semaphore(name, limit).permits(count("permits").unwrap_or(1))
            }
            (_, Some("read")) => self.client.rwlock(name).read(),
            (_, Some(_)) => self.client.rwlock(name).write(),
            (None, None) => self.client.lock(name),
        };
        let lock = lock.fencing(fencing).min_hold(Duration::from_millis(min_hold));
        match command["ttl_ms"].as_u64() {
            Some(ttl) => lock.ttl(Duration::from_millis(ttl)),
            None => lock,
        }
    }

    fn keep(&mut self, lease: Lease) -> Value {
        let at = now();
        let remaining = millis(lease.remaining());
        let mut reply = json!({"at": at, "token": lease.token(), "remaining_ms": remaining, "keys": lease.keys()});
        if let Ok(token) = lease.fencing_token() {
            reply["fencing_token"] = json!(token);
        }
        self.lease = Some(lease);
        reply
    }

    fn handle(&self) -> LeaseHandle {
        self.lease.as_ref().expect("a lease").handle()
    }
}

fn stamped(reply: Result<Value, Error>) -> Value {
    let at = now();
    let mut reply = reply.unwrap_or_else(
        |error| json!({"ok": false, "code": error.code(), "message": error.to_string()}),
    );
    let fields = reply.as_object_mut().expect("an object");
    fields.entry("ok").or_insert(json!(true));
    fields.entry("at").or_insert(json!(at));
    reply
}

fn print_reply(reply: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{reply}").and_then(|()| out.flush()).expect("stdout");
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Nanoseconds of the clock that counts suspend and is the same in every process.
fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[cfg(target_os = "linux")]
    let clock = libc::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    let clock = libc::CLOCK_MONOTONIC;
    // SAFETY: the pointer to `time` is valid.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
