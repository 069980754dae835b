//! Servers that call themselves something else than they are: slots and redirects decide whether it is a cluster.

use redlock::{ErrorKind, Redlock};

use crate::support::{Cluster, Gateway, Server, Verdict, alone, millis};

/// A proxy that reports this description of the server behind it.
fn calling(server: &Server, about: &'static str) -> Gateway {
    Gateway::to(server.port, move |words, _| match &*words[0] {
        "INFO" => Verdict::Reply(about),
        _ => Verdict::Pass,
    })
}

const STANDALONE: &str = "$21\r\nredis_mode:standalone\r\n";
const CLUSTER: &str = "$18\r\nredis_mode:cluster\r\n";

#[tokio::test]
async fn cluster_that_reports_standalone_is_used_as_a_cluster() {
    let server = alone(&[]);
    let gateway = calling(&server, STANDALONE);
    let address = gateway.address();
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let client = Redlock::builder([format!("redis+cluster://{address}")])
        .address_map(move |host, _| (host.to_owned(), port));
    let lock = client.build().unwrap().lock("job").wait(millis(5_000));
    lock.acquire().await.unwrap().release().await.unwrap();
    // Over another URL, a redirect shows what it is.
    let cluster = Cluster::start(2, false);
    let gateway = calling(&cluster.masters[0], STANDALONE);
    let client = Redlock::builder([gateway.url()]).build().unwrap();
    let other = (0..).map(|at| format!("job-{at}"));
    let other = other.map(|name| client.lock(name)).find(|lock| cluster.owner_of(&lock.key()) == 1);
    let error = other.unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("use redis+cluster://"), "{error}");
}

#[tokio::test]
async fn standalone_server_that_reports_a_cluster_is_used_as_one_server() {
    let server = Server::start();
    let gateway = calling(&server, CLUSTER);
    let lock = Redlock::builder([gateway.url()]).build().unwrap().lock("job").wait(millis(5_000));
    lock.acquire().await.unwrap().release().await.unwrap();
    for hidden in [false, true] {
        let gateway = Gateway::to(server.port, move |words, _| match &*words[0] {
            "INFO" => Verdict::Reply(CLUSTER),
            "CLUSTER" if hidden => Verdict::Reply("-ERR unknown command 'CLUSTER'\r\n"),
            _ => Verdict::Pass,
        });
        let url = format!("redis+cluster://{}", gateway.address());
        let error = Redlock::builder([url]).build().unwrap().lock("job").acquire().await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("Use redis://host:port"), "{error}");
    }
}
