//! Passes the linker settings of an extension module to Cargo. macOS needs them, and maturin sets them itself.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
