//! Read/write locks under faults: deletes that are lost or late, forced releases, scripts that a server lost (for
//! semaphores too), and keys of other programs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::rwlock::{TTL, read, write};
use crate::support::{Cluster, Gateway, Server, Verdict, builder, client, eventually, servers};

#[tokio::test]
async fn lost_reader_is_notified_although_others_read() {
    let nodes = servers(3);
    let [one, two] = [(); 2].map(|()| client(&nodes));
    let lost = read(&one).acquire().await.unwrap();
    assert!(two.force_release("cfg").await.unwrap());
    let error = lost.lost().await;
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    // Those that read from now on are others.
    let reader = read(&two).acquire().await.unwrap();
    assert_eq!(lost.release().await.unwrap_err().kind(), ErrorKind::Lost);
    reader.extend(TTL).await.unwrap();
    assert!(write(&one).try_acquire().await.unwrap().is_none());
    assert!(two.rwlock("cfg").write().force_release().await.unwrap());
    reader.lost().await;
}

/// A gateway in front of a server, and the words of the deletes of readers that pass it.
fn recording(server: &Server, lost: &Arc<AtomicUsize>) -> (Redlock, Arc<Mutex<Vec<String>>>) {
    let (deletes, lost) = (Arc::<Mutex<Vec<String>>>::default(), Arc::clone(lost));
    let seen = Arc::clone(&deletes);
    let gateway = Gateway::to(server.port, move |words, _| {
        let is_delete = words[0] == "EVALSHA" && words[2] == "2" && words.len() == 6;
        if !is_delete {
            return Verdict::Pass;
        }
        seen.lock().unwrap().push(words.join(" "));
        let is_lost =
            lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if is_lost.is_ok() { Verdict::Close } else { Verdict::Pass }
    });
    let redlock = builder([gateway.url()]).restart_guard(Duration::ZERO).build().unwrap();
    (redlock, deletes)
}

#[tokio::test]
async fn late_release_of_a_reader_affects_no_other() {
    let nodes = servers(1);
    let (one, deletes) = recording(&nodes[0], &Arc::default());
    let two = client(&nodes);
    read(&one).acquire().await.unwrap().release().await.unwrap();
    let delete = deletes.lock().unwrap()[0].clone();
    let token = delete.rsplit(' ').next().unwrap().to_owned();
    let repeat = || assert_eq!(nodes[0].text(&delete), format!("*2\r\n:0\r\n$32\r\n{token}\r\n"));
    let reader = read(&two).acquire().await.unwrap();
    repeat();
    assert!(write(&one).try_acquire().await.unwrap().is_none());
    reader.release().await.unwrap();
    let writer = write(&two).acquire().await.unwrap();
    repeat();
    assert!(read(&one).try_acquire().await.unwrap().is_none());
    writer.extend(TTL).await.unwrap();
    writer.release().await.unwrap();
    repeat();
    assert_eq!(nodes[0].ask("DBSIZE"), ":0");
}

#[tokio::test]
async fn lost_release_of_a_reader_is_repeated() {
    let (nodes, lost) = (servers(1), Arc::new(AtomicUsize::new(0)));
    let (one, deletes) = recording(&nodes[0], &lost);
    let two = client(&nodes);
    let (mine, theirs) = (read(&one).acquire().await.unwrap(), read(&two).acquire().await.unwrap());
    lost.store(1, Ordering::SeqCst);
    assert_eq!(mine.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    eventually("repeated", || nodes[0].ask("ZCARD {lock:cfg}:readers") == ":1").await;
    assert!(write(&one).wait(Duration::ZERO).acquire().await.is_err());
    theirs.extend(TTL).await.unwrap();
    theirs.release().await.unwrap();
    write(&one).wait(TTL).acquire().await.unwrap().release().await.unwrap();
    assert!(deletes.lock().unwrap().len() >= 2);
}

#[tokio::test]
async fn forced_release_that_arrives_late_affects_no_later_reader() {
    let nodes = servers(1);
    let [one, two] = [(); 2].map(|()| client(&nodes));
    let first = read(&one).acquire().await.unwrap();
    let value = nodes[0].ask("GET lock:cfg");
    assert_eq!(value, format!("shared:{}", first.token()));
    first.release().await.unwrap();
    let second = read(&two).acquire().await.unwrap();
    assert_ne!(nodes[0].ask("GET lock:cfg"), value);
    for lock in [one.rwlock("cfg").read(), one.rwlock("cfg").write(), one.lock("cfg")] {
        let error = lock.attach(&value).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    second.release().await.unwrap();
}

#[tokio::test]
async fn scripts_that_a_server_lost_are_loaded_again() {
    let nodes = servers(1);
    let redlock = client(&nodes);
    for lock in [read(&redlock), write(&redlock), redlock.semaphore("pool", 2)] {
        for _ in 0..3 {
            nodes[0].ask("SCRIPT FLUSH");
            let lease = lock.acquire().await.unwrap();
            nodes[0].ask("SCRIPT FLUSH");
            lease.extend(TTL).await.unwrap();
            nodes[0].ask("SCRIPT FLUSH");
            lease.release().await.unwrap();
            assert_eq!(nodes[0].ask("DBSIZE"), ":0");
        }
    }
}

#[tokio::test]
async fn keys_of_another_type_are_unsupported_and_stay() {
    let nodes = servers(1);
    let redlock = client(&nodes);
    for (key, locks) in [
        ("lock:cfg", vec![read(&redlock), write(&redlock)]),
        ("{lock:cfg}:readers", vec![read(&redlock)]),
        ("{lock:cfg}:turn", vec![read(&redlock), write(&redlock)]),
    ] {
        nodes[0].ask(&format!("RPUSH {key} data"));
        for lock in locks {
            let error = lock.acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{key}: {error}");
        }
        assert_eq!(nodes[0].ask("DBSIZE"), ":1", "{key}");
        assert_eq!(nodes[0].ask(&format!("LRANGE {key} 0 0")), "*1");
        nodes[0].ask(&format!("DEL {key}"));
    }
    // A lease of which the key or the set was replaced is lost.
    for key in ["lock:cfg", "{lock:cfg}:readers"] {
        let lease = read(&redlock).acquire().await.unwrap();
        nodes[0].ask(&format!("DEL {key}"));
        nodes[0].ask(&format!("RPUSH {key} data"));
        assert!(lease.extend(TTL).await.is_err());
        drop(lease);
        nodes[0].ask("FLUSHALL");
    }
}

#[tokio::test]
async fn sides_are_released_while_their_slot_moves() {
    let cluster = Cluster::start(3, false);
    let redlock = Redlock::builder([cluster.url()]).build().unwrap();
    for side in [redlock.rwlock("cfg").read(), redlock.rwlock("cfg").write()] {
        let lease = side.acquire().await.unwrap();
        let owner = cluster.owner_of("lock:cfg");
        let (slot, _) = cluster.begin_move("lock:cfg", (owner + 1) % 3);
        lease.extend(TTL * 2).await.unwrap();
        lease.release().await.unwrap();
        for master in &cluster.masters {
            master.ask(&format!("CLUSTER SETSLOT {slot} STABLE"));
        }
        assert_eq!(cluster.masters[owner].ask("EXISTS lock:cfg"), ":0");
    }
}
