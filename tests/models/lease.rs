//! The end and the deadline of a lease, and their models.

#[path = "../../core/src/lease/term.rs"]
mod term;

use loom::sync::Arc;
use loom::thread;

use term::Term;

/// Two threads end the lease while it is extended.
#[test]
fn a_lease_ends_once_and_its_deadline_never_moves_back() {
    super::check(3, || {
        let term = Arc::new(Term::new((10, false)));
        let enders: Vec<_> = [1, 2]
            .map(|end| {
                let term = Arc::clone(&term);
                thread::spawn(move || term.finish(end).then_some(end))
            })
            .into();
        let extends = {
            let term = Arc::clone(&term);
            thread::spawn(move || term.extend((20, false)))
        };
        let (seen, before) = (term.ended(), term.deadline());
        term.extend((15, true));
        let after = term.deadline();
        assert!(before.0 <= after.0 && after.0 >= 15 && after.1);
        let ends: Vec<u64> = enders.into_iter().filter_map(|ender| ender.join().unwrap()).collect();
        extends.join().unwrap();
        assert_eq!(term.deadline(), (20, true));
        assert_eq!(ends, [term.ended()], "one of them ends it");
        assert!(seen == 0 || seen == ends[0], "an end is final");
    });
}

/// What a thread did before it ended the lease is visible to all that see the end.
#[test]
fn an_end_publishes_the_last_deadline() {
    super::check(3, || {
        let term = Arc::new(Term::new((10, false)));
        let ends = {
            let term = Arc::clone(&term);
            thread::spawn(move || {
                term.extend((20, true));
                assert!(term.finish(1));
            })
        };
        if term.ended() != 0 {
            assert_eq!(term.deadline(), (20, true));
        }
        ends.join().unwrap();
    });
}
