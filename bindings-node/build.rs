//! Passes napi's linker settings on.

fn main() {
    napi_build::setup();
}
