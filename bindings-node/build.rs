//! Passes the linker settings of napi to Cargo.

fn main() {
    napi_build::setup();
}
