//! The values of other programs that `force_release` deletes.

use redlock::ErrorKind;

use crate::support::{Server, client};

/// Sets a key to any bytes. The test server's connection sends lines.
fn set(server: &Server, value: impl AsRef<[u8]>) {
    let escaped =
        value.as_ref().iter().map(|byte| format!("\\x{byte:02x}")).collect::<Vec<_>>().concat();
    server.ask(&format!("SET lock:job \"{escaped}\" PX 60000"));
}

#[tokio::test]
async fn force_release_deletes_only_short_text() {
    let server = Server::start();
    let redlock = client([&server]);
    let [longest, long] = [127, 128].map(|length| "x".repeat(length));
    for value in ["", "forged", "gr\u{f6}\u{df}e", &longest] {
        set(&server, value.as_bytes());
        assert!(redlock.force_release("job").await.unwrap(), "{value:?}");
        assert_eq!(server.ask("EXISTS lock:job"), ":0");
    }
    for value in [&b"\xff"[..], b"forged\xe4", "\u{fffd}".as_bytes(), long.as_bytes()] {
        set(&server, value);
        let error = redlock.force_release("job").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{value:?}: {error}");
        assert_eq!(server.ask("EXISTS lock:job"), ":1", "{value:?}");
    }
}
