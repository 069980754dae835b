//! Passes the linker settings of napi to Cargo.

use std::env;

fn main() {
    napi_build::setup();
    // `napi build` sets its own folder. `scripts/build` reads the type definitions from this one.
    if env::var_os("NAPI_TYPE_DEF_TMP_FOLDER").is_none() {
        let folder = env::var("OUT_DIR").expect("cargo sets it");
        println!("cargo::rustc-env=NAPI_TYPE_DEF_TMP_FOLDER={folder}");
    }
}
