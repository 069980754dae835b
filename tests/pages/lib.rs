//! Runs the Rust code blocks of all pages in docs/ as doc tests, with one item for each page.

#[cfg(doctest)]
include!(concat!(env!("OUT_DIR"), "/pages.rs"));
