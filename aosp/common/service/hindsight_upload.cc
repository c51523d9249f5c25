// SPDX-License-Identifier: Apache-2.0
//
// The program hindsight-upload on a device, which sends what may leave to a collector: the Rust library does the work, and the
// output goes to Android's log.

#include "log_output.h"

// Defined in the Rust library (uploader/src/ffi.rs).
extern "C" int hindsight_upload_main(int argc, const char* const* argv);

int main(int argc, char** argv) {
  hindsight::LogOutput log("hindsight-upload");
  return hindsight_upload_main(argc, argv);
}
