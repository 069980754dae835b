//! A holder with rslock that reads one command per line on stdin and writes one reply per line on stdout. See
//! `../README.md`.

use std::io::BufRead;
use std::time::Duration;

use rslock::{Lock, LockManager};

const PAUSE: u64 = 100;

fn main() {
    let urls = std::env::args().nth(2).expect("peer LIBRARY URLS");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut manager = LockManager::new(urls.split(',').map(str::to_owned).collect());
    let mut held = None;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let answer = match words[..] {
            ["acquire", name, ttl, wait] => {
                let times = u32::try_from(1 + wait.parse::<u64>().unwrap() * 2 / PAUSE).unwrap();
                manager.set_retry(times, Duration::from_millis(PAUSE));
                let ttl = Duration::from_millis(ttl.parse().unwrap());
                match runtime.block_on(manager.lock(name.as_bytes(), ttl)) {
                    Ok(lock) => answer(&mut held, lock),
                    Err(error) => format!("no {error}"),
                }
            }
            ["release"] => {
                // It does not report whether there was a lock to release.
                runtime.block_on(manager.unlock(held.as_ref().expect("a lock")));
                "yes".to_owned()
            }
            _ => panic!("no such command: {line}"),
        };
        println!("{answer}");
    }
}

fn answer(held: &mut Option<Lock>, lock: Lock) -> String {
    *held = Some(lock);
    "yes".to_owned()
}
