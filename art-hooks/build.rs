// SPDX-License-Identifier: Apache-2.0
//! Generates the C++ half of the bridge. Its source is compiled into the static library; its header,
//! `hindsight-art-hooks/src/bridge.rs.h`, is left in `<target dir>/cxxbridge` for ART's build to include.

fn main() {
    println!("cargo:rerun-if-changed=src/bridge.rs");
    println!("cargo:rerun-if-changed=include/hindsight/runtime/art_services.h");
    cxx_build::bridge("src/bridge.rs")
        .include("include")
        .std("c++17")
        .compile("hindsight_art_hooks_bridge");
}
