//! The client: nodes and options.

use std::path::PathBuf;
use std::rc::Rc;

use futures_util::FutureExt;
use napi::bindgen_prelude::Env;
use napi_derive::napi;
use redlock::Redlock;
use redlock::ffi::{self, Unit};

use crate::error::throw;
use crate::lock::{LockArgs, NativeLock};
use crate::outcome::Outcome;
use crate::runtime::{Local, Runtime};

/// The options of a client, as the caller gave them. Times are milliseconds.
#[napi(object, object_to_js = false)]
pub struct ClientArgs {
    pub key_prefix: Option<String>,
    pub node_timeout: Option<f64>,
    pub restart_guard: Option<f64>,
    pub tls_ca: Option<String>,
    pub tls_cert: Option<String>,
    pub tls_key: Option<String>,
    pub tls_server_name: Option<String>,
}

impl From<ClientArgs> for redlock::ffi::ClientArgs {
    fn from(args: ClientArgs) -> Self {
        let path = |path: Option<String>| path.map(PathBuf::from);
        Self::of_client(Unit::Milliseconds)
            .with("key_prefix", args.key_prefix)
            .with("node_timeout", args.node_timeout)
            .with("restart_guard", args.restart_guard)
            .with("tls_ca", path(args.tls_ca))
            .with("tls_cert", path(args.tls_cert))
            .with("tls_key", path(args.tls_key))
            .with("tls_server_name", args.tls_server_name)
    }
}

/// One list of nodes with its options.
#[napi]
pub struct NativeClient {
    local: Rc<Local>,
    client: Redlock,
}

#[napi]
impl NativeClient {
    /// Connects to nothing yet.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        runtime: &Runtime,
        nodes: Vec<String>,
        args: ClientArgs,
    ) -> napi::Result<Self> {
        let client =
            redlock::ffi::client(nodes, &args.into()).map_err(|error| throw(env, &error))?;
        let local = runtime.local.clone();
        Ok(Self { local, client })
    }

    /// The nodes' URLs without passwords.
    #[napi(getter, catch_unwind)]
    pub fn nodes(&self) -> Vec<String> {
        self.client.nodes()
    }

    /// Describes a lock; every option is checked here.
    #[napi(catch_unwind)]
    pub fn lock(&self, names: Vec<String>, args: LockArgs) -> napi::Result<NativeLock> {
        let lock = ffi::lock(&self.client, names, &args.into())
            .map_err(|error| throw(self.local.env, &error))?;
        Ok(NativeLock::new(&self.local, lock))
    }

    /// Settles with whether something was deleted.
    #[napi(catch_unwind)]
    pub fn force_release(&self, slot: u32, names: Vec<String>) {
        let release = self.client.force_release(names);
        let done = async move { release.await.map_or_else(Outcome::Failed, Outcome::Yes) };
        self.local.start(slot, done);
    }

    /// The numbers of what this client holds now.
    #[napi(catch_unwind)]
    pub fn leases(&self) -> Vec<u32> {
        self.local.leases.ids_of(&self.client.leases())
    }

    /// Settles with how many leases were released.
    #[napi(catch_unwind)]
    pub fn release_all(&self, slot: u32) {
        self.local.start(slot, self.client.release_all().map(counted));
    }

    /// Settles with how many leases had to be taken back. A timeout that breaks a rule is thrown.
    #[napi(catch_unwind)]
    pub fn shutdown(&self, slot: u32, timeout: f64) -> napi::Result<()> {
        let timeout = Unit::Milliseconds
            .duration("timeout", timeout)
            .map_err(|error| throw(self.local.env, &error))?;
        self.local.start(slot, self.client.shutdown(timeout).map(counted));
        Ok(())
    }

    /// Ends waiting acquires and leases; keys live out their ttl.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.client.close();
    }
}

fn counted(done: redlock::Result<usize>) -> Outcome {
    let count = |count| Outcome::Count(u32::try_from(count).unwrap_or(u32::MAX));
    done.map_or_else(Outcome::Failed, count)
}

/// What to do instead of giving another library's option; nothing if it is not one that core knows.
#[napi(catch_unwind)]
pub fn instead_of(option: String) -> Option<String> {
    redlock::ffi::instead_of(&option, Unit::Milliseconds)
}

/// The default client's nodes: from these two variables if given, else the one on this machine.
#[napi(catch_unwind)]
pub fn default_nodes(
    env: Env,
    redlock_nodes: Option<String>,
    redis_url: Option<String>,
) -> napi::Result<Vec<String>> {
    redlock::ffi::default_nodes(redlock_nodes, redis_url).map_err(|error| throw(env, &error))
}
