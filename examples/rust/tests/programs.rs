//! Runs the examples: over a node in memory, and the cron job over a server as two hosts.

use std::collections::HashMap;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use redlock::testing::TestRedlock;
use redlock_examples::layer::{Failed, OneAtATime};
use redlock_examples::payments::{Payments, service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, ServiceExt, service_fn};

const LIMIT: Duration = Duration::from_secs(20);

fn payments(redlock: &TestRedlock, work: Duration) -> Payments {
    let results = Arc::<Mutex<HashMap<String, u64>>>::default();
    Payments { redlock: (**redlock).clone(), results, work }
}

async fn pay(payments: &Payments, key: &str) -> (u16, String) {
    let request = Request::post("/payments").header("idempotency-key", key);
    let request = request.body(Body::empty()).unwrap();
    let answer = service(payments.clone()).oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), 1000).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_payment_is_made_once_for_each_key() {
    let redlock = TestRedlock::new().unwrap();
    let payments = payments(&redlock, Duration::from_millis(100));
    let many = tokio::join!(pay(&payments, "a"), pay(&payments, "a"), pay(&payments, "b"));
    assert_eq!((&many.0, many.0.0), (&many.1, 200));
    assert_ne!(many.0.1, many.2.1);
    assert_eq!(payments.results.lock().unwrap().len(), 2);
    redlock.fail();
    assert_eq!(pay(&payments, "c").await.0, 503);
}

#[tokio::test]
async fn a_client_that_goes_away_keeps_nobody_waiting() {
    let redlock = TestRedlock::new().unwrap();
    let slow = payments(&redlock, Duration::from_secs(3600));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(axum::serve(listener, service(slow.clone())).into_future());
    let mut client = TcpStream::connect(address).await.unwrap();
    let text =
        "POST /payments HTTP/1.1\r\nhost: a\r\nidempotency-key: a\r\ncontent-length: 0\r\n\r\n";
    client.write_all(text.as_bytes()).await.unwrap();
    let held = async {
        while redlock.leases().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, held).await.unwrap();
    drop(client);
    let quick = Payments { work: Duration::ZERO, ..slow };
    let (status, _) = tokio::time::timeout(LIMIT, pay(&quick, "a")).await.unwrap();
    assert_eq!(status, 200);
    served.abort();
    let _ = TcpStream::connect(address).await.map(|mut stream| drop(stream.read_u8()));
}

#[tokio::test]
async fn the_layer_serves_one_request_at_a_time() {
    let redlock = TestRedlock::new().unwrap();
    let now = Arc::new(Mutex::new((0, 0)));
    let seen = Arc::clone(&now);
    let inner = service_fn(move |_: &'static str| {
        let now = Arc::clone(&now);
        async move {
            let running = {
                let mut now = now.lock().unwrap();
                now.0 += 1;
                now.1 = now.1.max(now.0);
                now.0
            };
            tokio::time::sleep(Duration::from_millis(50)).await;
            now.lock().unwrap().0 -= 1;
            Ok::<_, String>(running)
        }
    });
    let key = |request: &&'static str| (*request != "free").then(|| (*request).to_owned());
    let layer = OneAtATime::new((*redlock).clone(), key);
    let locked = layer.layer(inner);
    let ask = |request| locked.clone().oneshot(request);
    let (one, other) = tokio::join!(ask("a"), ask("a"));
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(seen.lock().unwrap().1, 1);
    let both = tokio::join!(ask("free"), ask("free"));
    assert!(both.0.is_ok() && seen.lock().unwrap().1 == 2);
    // A request that loses its lock is not served any further.
    let (lost, _) = tokio::join!(ask("a"), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        redlock.lose("a").await.unwrap()
    });
    assert!(matches!(lost, Err(Failed::Lock(error)) if error.code() == "lost"));
}

fn run(program: &str, nodes: &str) -> Output {
    let run = Command::new(program).env("REDLOCK_NODES", nodes).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    run
}

#[test]
fn smol_runs_one_body_after_the_other() {
    let said = run(env!("CARGO_BIN_EXE_smol"), "memory://smol").stdout;
    let said = String::from_utf8(said).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let number = |line: &str| line.split(' ').next().unwrap().to_owned();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(number(lines[0]) == number(lines[1]) && number(lines[2]) == number(lines[3]), "{said}");
}

/// A server at a socket in a separate folder.
struct Server(std::process::Child, std::path::PathBuf);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

#[test]
fn of_two_hosts_one_does_the_cron_job() {
    let folder = std::env::temp_dir().join(format!("redlock-cron-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("redis.sock");
    let server = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .args([&socket, std::path::Path::new("--dir"), &folder])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let _server = Server(server, folder);
    let begun = std::time::Instant::now();
    while !socket.exists() && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(20));
    }
    let url = format!("unix://{}", socket.display());
    let said =
        [1, 2].map(|_| String::from_utf8(run(env!("CARGO_BIN_EXE_cron"), &url).stdout).unwrap());
    assert!(said[0].ends_with("part 3 of 3\n"), "{said:?}");
    assert_eq!(said[1], "another host does it\n");
}
