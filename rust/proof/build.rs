//! Compiles the fault-injection shim against RocksDB's headers, with the settings of RocksDB's own
//! build that its classes depend on.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src/faults.cc");
    let Some(include) = std::env::var_os("DEP_ROCKSDB_INCLUDE") else {
        println!("cargo::error=the RocksDB crate did not say where its headers are");
        return;
    };
    let include = Path::new(&include);
    let os = if cfg!(target_os = "macos") {
        "OS_MACOSX"
    } else {
        "OS_LINUX"
    };
    cc::Build::new()
        .cpp(true)
        .file("src/faults.cc")
        .include(include)
        .include(include.join(".."))
        .define("NDEBUG", None)
        .define(os, None)
        .define("ROCKSDB_PLATFORM_POSIX", None)
        .define("ROCKSDB_LIB_IO_POSIX", None)
        .flag("-std=c++20")
        .flag("-fno-rtti")
        .flag("-include")
        .flag("cstdint")
        .warnings(false)
        .compile("holdfast_faults");
}
