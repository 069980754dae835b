//! Servers without push notifications. Waiters poll, and the log reports that once.

use std::fmt::{Debug, Write};
use std::sync::Mutex;

use redlock::Redlock;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::support::replicas::calls;
use crate::support::{Server, eventually, millis};

/// The warnings of the whole test program.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlock") && *metadata.level() <= tracing::Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        WARNINGS.lock().unwrap().push(text.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

/// Waits three times for a lock that is deleted by hand, and once more over a new connection.
async fn polls(server: &Server, url: String) {
    let _ = tracing::subscriber::set_global_default(Warnings);
    let redlock = Redlock::builder([url]).build().unwrap();
    for _ in 0..3 {
        server.ask("SET lock:job other PX 60000");
        let asked = || calls(server, "evalsha") + calls(server, "set");
        let before = asked();
        let waiting = tokio::spawn(redlock.lock("job").wait(millis(10_000)).acquire());
        eventually("it was refused", || asked() > before).await;
        server.ask("DEL lock:job");
        let lease = waiting.await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
    server.ask("CLIENT KILL TYPE normal");
    let lease = redlock.lock("job").wait(millis(10_000)).acquire().await.unwrap();
    lease.release().await.unwrap();
    let place = format!("127.0.0.1:{}", server.port);
    let warnings = WARNINGS.lock().unwrap();
    let about = |text: &&String| {
        text.contains("does not support")
            && text.contains("CLIENT TRACKING")
            && text.contains(&place)
    };
    assert_eq!(warnings.iter().filter(about).count(), 1, "{warnings:?}");
    assert!(!warnings.iter().any(|text| text.contains("s3cret")));
}

#[tokio::test]
async fn polls_a_server_without_resp3() {
    let server = Server::with(&["--rename-command", "HELLO", ""]);
    polls(&server, server.url()).await;
}

#[tokio::test]
async fn polls_as_user_without_client_command() {
    let server = Server::start();
    server.ask("ACL SETUSER app on >s3cret ~* +@all -client");
    polls(&server, server.url().replace("//", "//app:s3cret@")).await;
}
