//! Routes each reply to its caller, holds it back until replicas have the write, or passes it to the cluster task.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::node::{Fault, is_forwarded};

use super::link::Open;
use super::request::{Answer, Redirect, Request};
use super::router::ClusterMessage;
use super::world::World;

impl World {
    /// Sends `WAIT` behind the votes of this connection, if the client requires replicas.
    pub(super) fn request_confirmation(&mut self, client: usize, node: usize) {
        let now = self.clocks[client].local(self.now);
        let replicas = self.durability.min_replicas;
        let confirm = self.links[client][node].confirm.as_mut();
        if let Some(time) = confirm.and_then(|confirm| confirm.due(|| now)) {
            let wait = Request::Wait { replicas, time };
            self.send((client, node), Open::without_caller(wait, Duration::ZERO));
        }
    }

    pub(super) fn answered(
        &mut self,
        client: usize,
        node: usize,
        epoch: u32,
        id: u64,
        answer: Answer,
    ) {
        let link = &mut self.links[client][node];
        if link.epoch == epoch
            && let Some(at) = link.open.iter().position(|open| open.id == id)
            && let Some(open) = link.open.remove(at)
        {
            self.deliver(client, node, open, answer);
            self.request_confirmation(client, node);
        }
    }

    /// Delivers the reply to the caller, unless it belongs to another task or must wait.
    fn deliver(&mut self, client: usize, node: usize, open: Open, answer: Answer) {
        let now = self.clocks[client].local(self.now);
        let link = &mut self.links[client][node];
        match (answer, &open.request) {
            (Answer::Confirmed(replicas), _) => {
                let replicas = Value::Int(replicas.try_into().unwrap());
                link.confirm.as_mut().unwrap().judge(&replicas, now, |(open, answer), fault| {
                    let _ = open.answer.send(fault.map_or(Ok(answer), Err));
                });
            }
            // As in `Protocol::follow_or_forward`.
            (Answer::Sent(redirect), request)
                if !is_forwarded(
                    &open.purpose,
                    matches!(redirect, Redirect::Ask(_)),
                    open.redirects,
                ) =>
            {
                let down = redirect == Redirect::Down;
                // The first vote created no key.
                if let Some(claim) = request.keeps().filter(|_| down && request.is_first()) {
                    link.unsent.insert(Arc::clone(&claim.token));
                }
                self.send_to_cluster(client, node, ClusterMessage::Redirected(None, redirect));
                let fault =
                    if down { Fault::new("the cluster is down") } else { Fault::redirect() };
                let _ = open.answer.send(Err(fault));
            }
            (Answer::Sent(Redirect::Down), Request::Release { claim, .. })
                if link.unsent.remove(&claim.token) =>
            {
                let _ = open.answer.send(Err(Fault::new("the cluster is down")));
            }
            (Answer::Sent(redirect), _) => {
                self.send_to_cluster(
                    client,
                    node,
                    ClusterMessage::Redirected(Some(open), redirect),
                );
            }
            (Answer::Slots(owner, epoch), Request::Slots { discovery }) => {
                self.reported(client, node, *discovery, (owner, epoch));
            }
            (answer, _) => match (&mut link.confirm, open.confirm_by) {
                (Some(confirm), Some(by)) if answer.grants() => {
                    let timeout = open.timeout;
                    confirm.hold((open, answer), timeout, by);
                }
                _ => drop(open.answer.send(Ok(answer))),
            },
        }
    }
}
