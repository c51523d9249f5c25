// SPDX-License-Identifier: Apache-2.0
//! Calls into ART that only the lab's build needs: of the lock-free stop protocol. The header that cxx generates from
//! this file tells the C++ half that the build is the lab's (`hindsight/runtime/lab_build.h`).

#[cxx::bridge(namespace = "art::hindsight::lab")]
pub(crate) mod ffi {
    #[namespace = "art::hindsight"]
    unsafe extern "C++" {
        include!("hindsight/runtime/art_services.h");

        fn RunsManagedCode(words: usize) -> bool;
        fn ObstacleToLockFree() -> &'static str;
    }
}
