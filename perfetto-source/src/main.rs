// SPDX-License-Identifier: Apache-2.0
//! The program; [`hindsight_perfetto_source`] has it all.

fn main() {
    std::process::exit(hindsight_perfetto_source::main(std::env::args_os().skip(1)));
}
