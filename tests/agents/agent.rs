//! A lock holder in Rust that reads one JSON command per line on stdin and writes one JSON reply per line on stdout.
//! `README.md` describes the protocol.

mod candidate;
mod clients;
mod runs;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::rc::Rc;
use std::time::Duration;

use redlock::{Error, LeaseHandle};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use clients::Clients;

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
    let agent = Rc::new(Agent {
        clients: Clients::new(&nodes, Duration::from_millis(guard)),
        leases: RefCell::default(),
        runs: runs::Runs::default(),
    });
    print_reply(&json!({"ready": true, "pid": std::process::id()}));
    let mut commands = read_commands();
    LocalSet::new().block_on(&runtime, async move {
        while let Some(command) = commands.recv().await {
            let agent = Rc::clone(&agent);
            tokio::task::spawn_local(async move { print_reply(&agent.run(&command).await) });
        }
    });
}

/// The commands up to `quit`, from a thread of their own, because reading them blocks.
fn read_commands() -> mpsc::UnboundedReceiver<Value> {
    let (sender, commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let command: Value =
                serde_json::from_str(&line.expect("a line")).expect("a JSON object");
            if command["do"] == "quit" || sender.send(command).is_err() {
                return;
            }
        }
    });
    commands
}

struct Agent {
    clients: Clients,
    leases: RefCell<HashMap<String, LeaseHandle>>,
    runs: runs::Runs,
}

type Reply = Result<Value, Error>;

impl Agent {
    async fn run(self: &Rc<Self>, command: &Value) -> Value {
        let verb = command["do"].as_str().expect("a command");
        let reply = match verb {
            "acquire" | "try" | "attach" | "hold" => self.begin(verb, command).await,
            "extend" | "release" | "detach" | "held" | "ensure_held" | "fencing_token" | "lost" => {
                self.of_lease(verb, command).await
            }
            "once" | "lead" | "leader" | "next" | "end" => self.of_run(verb, command).await,
            "lose" | "advance" | "jump" | "fail" | "recover" => {
                self.clients.of_test(verb, command).await
            }
            _ => self.clients.run(verb, command).await,
        };
        stamped(reply.map_err(|error| self.described(&error)), &command["id"])
    }

    /// The commands that return a lease.
    async fn begin(&self, verb: &str, command: &Value) -> Reply {
        let lease = match verb {
            "acquire" => {
                let wait = command["wait_ms"].as_f64();
                let wait = wait.map(|wait| Duration::from_secs_f64(wait / 1e3));
                self.clients.lock(command).acquire_within(wait).await?
            }
            "try" => match self.clients.lock(command).try_acquire().await? {
                Some(lease) => lease,
                None => {
                    return Ok(json!({"ok": false, "code": "held", "message": "held by another"}));
                }
            },
            "attach" => {
                let token = command["token"].as_str().expect("a token");
                self.clients.lock(command).attach(token).await?
            }
            _ => self.clients.hold(command).await?,
        };
        // The end of a lease is a command, so dropping it must not release it.
        Ok(self.keep(command, lease.into_handle()))
    }

    fn keep(&self, command: &Value, lease: LeaseHandle) -> Value {
        let at = now();
        let mut reply = state(&lease);
        reply["at"] = json!(at);
        reply["token"] = json!(lease.token());
        reply["keys"] = json!(lease.keys());
        self.leases.borrow_mut().insert(lease_of(command), lease);
        reply
    }

    async fn of_lease(&self, verb: &str, command: &Value) -> Reply {
        let lease = self.leases.borrow()[&lease_of(command)].clone();
        match verb {
            "extend" => {
                let ttl = command["ttl_ms"].as_u64().expect("ttl_ms");
                lease.extend(Duration::from_millis(ttl)).await?;
            }
            "release" => lease.release().await?,
            "detach" => return Ok(json!({"held": lease.detach()})),
            "ensure_held" => lease.ensure_held()?,
            "fencing_token" => return Ok(json!({"fencing_token": lease.fencing_token()?})),
            "lost" => return Ok(lost(&lease, command).await),
            _ => {}
        }
        Ok(state(&lease))
    }
}

impl Agent {
    fn described(&self, error: &Error) -> Value {
        let nodes = error.nodes().iter().map(|node| {
            let state = node.state.as_str();
            json!({"url": node.url, "state": state, "error": node.error})
        });
        json!({
            "ok": false,
            "code": error.code(),
            "message": error.to_string(),
            "resource": error.resource(),
            "reason": error.reason(),
            "holder": error.holder(),
            "waited_ms": error.waited().map(millis),
            "remaining_ms": error.remaining().map(millis),
            "nodes": nodes.collect::<Vec<_>>(),
            "shown": format!("{error:?} {:?}", self.clients),
        })
    }
}

/// Measures the notification itself. `held` is read only after `lost` has completed.
async fn lost(lease: &LeaseHandle, command: &Value) -> Value {
    let limit = Duration::from_millis(command["timeout_ms"].as_u64().expect("timeout_ms"));
    let Ok(error) = tokio::time::timeout(limit, lease.lost()).await else {
        return json!({"ok": false, "code": "timeout", "message": "not lost"});
    };
    while lease.is_held() {
        std::hint::spin_loop();
    }
    json!({"at": now(), "reason": error.reason()})
}

fn lease_of(command: &Value) -> String {
    command["lease"].as_str().unwrap_or("lease").to_owned()
}

fn state(lease: &LeaseHandle) -> Value {
    let mut state = json!({
        "held": lease.is_held(),
        "remaining_ms": millis(lease.remaining()),
        "ttl_ms": millis(lease.ttl()),
        "shown": format!("{lease:?}"),
    });
    if let Ok(token) = lease.fencing_token() {
        state["fencing_token"] = json!(token);
    }
    state
}

fn stamped(reply: Result<Value, Value>, id: &Value) -> Value {
    let at = now();
    let mut reply = reply.unwrap_or_else(|error| error);
    let fields = reply.as_object_mut().expect("an object");
    fields.entry("ok").or_insert(json!(true));
    fields.entry("at").or_insert(json!(at));
    fields.insert("id".to_owned(), id.clone());
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
