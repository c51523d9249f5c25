// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into the VM: a fixed result of time(), which ART takes as the seed of identity hash codes. Without it, the
// hash codes of a program, and their collisions, change from run to run. Java's own clocks don't call time().

#include <time.h>

time_t time(time_t* result) {
  const time_t when = 1600000000;
  if (result != NULL) {
    *result = when;
  }
  return when;
}
