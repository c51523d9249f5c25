// SPDX-License-Identifier: Apache-2.0
//! Generates the C++ half of the bridge. Its source is compiled into the static library. Its header,
//! `hindsight-art-hooks/src/bridge.rs.h`, stays in `<target dir>/cxxbridge`, where ART's build includes it.

fn main() {
    println!("cargo:rerun-if-changed=src/bridge.rs");
    println!("cargo:rerun-if-changed=src/lab.rs");
    println!("cargo:rerun-if-changed=include/hindsight/runtime/art_services.h");
    println!("cargo:rerun-if-changed=include/hindsight/runtime/rules.h");
    println!("cargo:rerun-if-env-changed=HINDSIGHT_BRIDGE_SOURCES_ONLY");
    let mut bridge = match std::env::var_os("CARGO_FEATURE_LAB") {
        Some(_) => cxx_build::bridges(["src/bridge.rs", "src/lab.rs"]),
        None => cxx_build::bridge("src/bridge.rs"),
    };
    // In an AOSP tree Soong compiles the C++ half with its own compiler (see scripts/rom).
    if std::env::var_os("HINDSIGHT_BRIDGE_SOURCES_ONLY").is_none() {
        bridge
            .include("include")
            .std("c++17")
            .compile("hindsight_art_hooks_bridge");
    }
}
