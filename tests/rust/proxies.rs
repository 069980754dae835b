//! Managed servers and proxies that lack commands, or cut connections: each is told of at connect or does without.

use std::time::Duration;

use redlock::ErrorKind;

use crate::support::{Server, client};

#[tokio::test]
async fn a_command_that_every_lock_needs_and_nobody_knows_is_named_at_connect() {
    for hidden in ["EVALSHA", "SET", "PEXPIRE", "DEL", "PTTL", "GET"] {
        let server = Server::with(&["--rename-command", hidden, ""]);
        let redlock = client([&server]);
        let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{hidden}: {error}");
        let words = format!("does not know {hidden}, which every lock needs");
        assert!(error.to_string().contains(&words), "{hidden}: {error}");
        assert_eq!(server.ask("DBSIZE"), ":0", "{hidden}");
    }
}
