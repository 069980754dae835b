//! The slow tier: tests that need real seconds, or that others running beside them would disturb.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

mod support;

mod slow {
    mod leaks;
}
