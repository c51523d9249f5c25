// SPDX-License-Identifier: Apache-2.0
//
// The program hindsight-perfetto on a device, the data source dev.hindsight of Perfetto: the Rust library does the work, and the
// output goes to Android's log.

#include "log_output.h"

// Defined in the Rust library (perfetto-source/src/ffi.rs).
extern "C" int hindsight_perfetto_main(int argc, const char* const* argv);

int main(int argc, char** argv) {
  hindsight::LogOutput log("hindsight-perfetto");
  return hindsight_perfetto_main(argc, argv);
}
