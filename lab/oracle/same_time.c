// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into the VM: the time, in seconds, that ART takes as the seed of identity hash codes. Without it the
// same program finds other hash codes, and other collisions, each time. Java's own clocks don't ask for it.

#include <time.h>

time_t time(time_t* result) {
  const time_t when = 1600000000;
  if (result != NULL) {
    *result = when;
  }
  return when;
}
