//! The client, and the default client of this copy of the package.

use std::rc::Rc;

use futures_util::FutureExt;
use napi::bindgen_prelude::{Env, Object};
use napi_derive::napi;
use redlock::Redlock;
use redlock::ffi::{self, Unit};

use crate::errors::throw;
use crate::lock::OptionSet;
use crate::options::{client_args, default_trust, lock_args};
use crate::outcome::Outcome;
use crate::runtime::{Runtime, ThreadState};
use crate::stats::Stats;

/// A client for one set of nodes.
#[napi]
pub struct NativeClient {
    thread: Rc<ThreadState>,
    client: Redlock,
}

#[napi]
impl NativeClient {
    /// Creates a client without connecting.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        runtime: &Runtime,
        nodes: Vec<String>,
        options: Object<'_>,
    ) -> napi::Result<Self> {
        let thread = &runtime.thread;
        let args = client_args(&options, thread)?;
        let client = ffi::client_trusting(nodes, &args, default_trust(&options)?);
        let client = client.map_err(|error| throw(env, &error))?;
        Ok(Self { thread: runtime.thread.clone(), client })
    }

    /// The URLs of the nodes, without passwords.
    #[napi(getter, catch_unwind)]
    pub fn nodes(&self) -> Vec<String> {
        self.client.nodes()
    }

    /// Returns the client's statistics.
    #[napi(catch_unwind)]
    pub fn stats(&self) -> Stats {
        self.client.stats().into()
    }

    /// Creates an option set for locks of this client. Checks the options, and the names of the first lock.
    #[napi(catch_unwind)]
    pub fn option_set(&self, names: Vec<String>, options: Object<'_>) -> napi::Result<OptionSet> {
        OptionSet::describe(&self.thread, &self.client, names, &options)
    }

    /// Deletes the lock. Settles with whether it was held.
    #[napi(catch_unwind)]
    pub fn force_release(&self, slot: u32, names: Vec<String>) {
        let release = self.client.force_release(names);
        self.thread
            .start(slot, release.map(|done| done.map_or_else(Outcome::Failed, Outcome::Yes)));
    }

    /// Asks the nodes whether they would grant a lock. Settles with a `Ping`. Throws for an invalid timeout.
    #[napi(catch_unwind)]
    pub fn ping(&self, slot: u32, timeout: f64) -> napi::Result<()> {
        let timeout = Unit::Milliseconds
            .duration("timeout", timeout)
            .map_err(|error| throw(self.thread.env, &error))?;
        let found = |found| Outcome::Ping(Box::new(found));
        let ping = self.client.ping(timeout);
        self.thread.start(slot, ping.map(move |done| done.map_or_else(Outcome::Failed, found)));
        Ok(())
    }

    /// Returns the numbers of the leases that this client holds now.
    #[napi(catch_unwind)]
    pub fn leases(&self) -> Vec<i64> {
        self.thread.held.ids_of(&self.client.leases())
    }

    /// Releases all leases. Settles with the number of released leases.
    #[napi(catch_unwind)]
    pub fn release_all(&self, slot: u32) {
        let _deferred = self.thread.defer_sending();
        self.thread.start(slot, self.client.release_all().map(counted));
    }

    /// Shuts the client down. Settles with the number of leases that were still held at the timeout. Throws for an
    /// invalid timeout.
    #[napi(catch_unwind)]
    pub fn shutdown(&self, slot: u32, timeout: f64) -> napi::Result<()> {
        let timeout = Unit::Milliseconds
            .duration("timeout", timeout)
            .map_err(|error| throw(self.thread.env, &error))?;
        let _deferred = self.thread.defer_sending();
        self.thread.start(slot, self.client.shutdown(timeout).map(counted));
        Ok(())
    }

    /// Ends waiting acquires and leases. Keys expire when their TTL ends.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.client.close();
    }
}

fn counted(done: redlock::Result<usize>) -> Outcome {
    let count = |count| Outcome::Count(u32::try_from(count).unwrap_or(u32::MAX));
    done.map_or_else(Outcome::Failed, count)
}

#[napi]
impl Runtime {
    /// Sets the nodes and options of the default client. Throws if it is in use and `replace` is false.
    #[napi(catch_unwind)]
    pub fn configure(
        &self,
        nodes: Vec<String>,
        options: Object<'_>,
        replace: bool,
    ) -> napi::Result<()> {
        let configure = |client: Redlock| {
            let nodes = client.nodes();
            self.thread.default_client.configure(client, &nodes, replace)
        };
        let args = client_args(&options, &self.thread)?;
        let client = ffi::client_trusting(nodes, &args, default_trust(&options)?);
        let configured = client.and_then(configure);
        configured.map(drop).map_err(|error| throw(self.thread.env, &error))
    }

    /// Advances the time (ms) of clients whose only node is `memory://name`, from one deadline to the next. For tests
    /// of programs.
    #[napi(catch_unwind)]
    pub fn step_memory(&self, slot: u32, name: String, time: f64) -> napi::Result<()> {
        let time = Unit::Milliseconds.duration("ms", time);
        let time = time.map_err(|error| throw(self.thread.env, &error))?;
        let stepped = ffi::step_memory(&name, time);
        self.thread.start(slot, stepped.map(|()| Outcome::Done));
        Ok(())
    }

    /// Creates an option set for locks of the default client, which is then in use. If no client was chosen, creates it
    /// from two environment variables.
    #[napi(catch_unwind)]
    pub fn default_option_set(
        &self,
        names: Vec<String>,
        options: Object<'_>,
        source: Object<'_>,
    ) -> napi::Result<OptionSet> {
        let trust = default_trust(&source)?;
        let (redlock_nodes, redis_url) = (source.get("redlockNodes")?, source.get("redisUrl")?);
        let make = || {
            let nodes = ffi::default_nodes(redlock_nodes, redis_url)?;
            let args = ffi::ClientArgs::of_client(Unit::Milliseconds);
            ffi::client_trusting(nodes, &args, trust)
        };
        let client = self.thread.default_client.get(make, Redlock::nodes);
        let client = client.map_err(|error| throw(self.thread.env, &error))?;
        OptionSet::describe(&self.thread, &client, names, &options)
    }
}

/// Checks a lock before its client is known. Throws if it is invalid.
#[napi(catch_unwind)]
pub fn check_lock(env: Env, names: Vec<String>, options: Object<'_>) -> napi::Result<()> {
    ffi::check_lock(&names, &lock_args(&options)?).map_err(|error| throw(env, &error))
}

/// Makes the node `memory://name` fail every command, or work again. For tests of programs.
#[napi(catch_unwind)]
pub fn fail_memory(name: String, down: bool) {
    ffi::fail_memory(&name, down);
}

/// Lets this time (ms) pass at once for clients whose only node is `memory://name`. For tests of programs.
#[napi(catch_unwind)]
pub fn advance_memory(env: Env, name: String, time: f64) -> napi::Result<()> {
    let time = Unit::Milliseconds.duration("ms", time).map_err(|error| throw(env, &error))?;
    ffi::advance_memory(&name, time);
    Ok(())
}
