// SPDX-License-Identifier: Apache-2.0
//! The program hindsight-upload; [`hindsight_uploader`] has it all.

fn main() {
    std::process::exit(hindsight_uploader::main(std::env::args_os().skip(1)));
}
