// SPDX-License-Identifier: Apache-2.0
//! The program hindsightd.

fn main() {
    std::process::exit(hindsight_service::run(std::env::args_os()));
}
