//! The runs of `once` and `lead`. Their bodies wait for the command `end`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use redlock::{Error, Leader, LeaseHandle, Redlock};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot};

use super::{Agent, Reply, lease_of};

type ByLease<T> = RefCell<HashMap<String, T>>;

/// By lease: the candidate of a run, its body's end, and what happened to it.
#[derive(Default)]
pub(crate) struct Runs {
    leaders: ByLease<Leader>,
    ends: ByLease<oneshot::Sender<bool>>,
    events: ByLease<Rc<Mutex<mpsc::UnboundedReceiver<Reply>>>>,
}

impl Agent {
    pub(crate) async fn of_run(self: &Rc<Self>, verb: &str, command: &Value) -> Reply {
        let key = lease_of(command);
        match verb {
            "leader" => {
                let leader = self.runs.leaders.borrow().get(&key).cloned();
                let leader = leader.unwrap_or_else(|| self.clients.leader(command));
                return Ok(
                    json!({"leads": leader.is_leading(), "current": leader.current().await?}),
                );
            }
            "end" => {
                let end = self.runs.ends.borrow_mut().remove(&key).expect("a body has begun");
                // The body may have been dropped.
                let _ = end.send(command["how"] == "returns");
            }
            "next" => {}
            _ => self.start(verb == "once", command.clone()),
        }
        let events = Rc::clone(&self.runs.events.borrow()[&key]);
        let event = events.lock().await.recv().await;
        event.expect("a run reports its end")
    }

    fn start(self: &Rc<Self>, is_once: bool, command: Value) {
        let (events, received) = mpsc::unbounded_channel();
        let key = lease_of(&command);
        self.runs.events.borrow_mut().insert(key.clone(), Rc::new(Mutex::new(received)));
        let agent = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let body = |lease| agent.body(&command, lease, &events);
            let ran = if is_once {
                agent.clients.once(&command).run(body).await.map(|value| value.is_some())
            } else {
                let leader = agent.clients.leader(&command);
                agent.runs.leaders.borrow_mut().insert(key, leader.clone());
                leader.run(body).await.map(|()| true)
            };
            drop(events.send(ran.map(|ran| json!({"begun": false, "ran": ran}))));
        });
    }

    async fn body(
        &self,
        command: &Value,
        lease: LeaseHandle,
        events: &mpsc::UnboundedSender<Reply>,
    ) -> Result<(), Error> {
        let (end, ends) = oneshot::channel();
        self.runs.ends.borrow_mut().insert(lease_of(command), end);
        let mut begun = self.keep(command, lease);
        begun["begun"] = json!(true);
        drop(events.send(Ok(begun)));
        let succeeds = ends.await.unwrap_or_default();
        if succeeds { Ok(()) } else { Redlock::builder([""]).build().map(drop) }
    }
}
