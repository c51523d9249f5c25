// SPDX-License-Identifier: Apache-2.0
//
// For tests: how much is done between two suspend checks while methods are named. With the environment variable
// HINDSIGHT_CHECK_NAMES, the end of tracing prints for each step to stderr:
//
//   hindsight: names: STEP: N slices, at most N items, at most N us of CPU time
//
// The steps are "list" (of all classes, once a snapshot), "find" (methods in classes) and "name" (methods).

#ifndef HINDSIGHT_RUNTIME_NAMING_CHECK_H_
#define HINDSIGHT_RUNTIME_NAMING_CHECK_H_

#include <stddef.h>
#include <stdint.h>

#include "hindsight/runtime/lab_build.h"

namespace art {
namespace hindsight {

enum class NamingStep { kList, kFind, kName };

#if defined(HINDSIGHT_LAB)

// The thread's CPU time since its construction.
class NamingWatch {
 public:
  NamingWatch();
  uint64_t ElapsedNs() const;

 private:
  uint64_t start_;
};

// Counts a slice of so many items. Called by the control thread.
void CountNaming(NamingStep step, size_t items, const NamingWatch& watch);

// Prints the numbers, if that is wanted.
void ReportNaming();

#else

class NamingWatch {};
inline void CountNaming(NamingStep, size_t, const NamingWatch&) {}
inline void ReportNaming() {}

#endif

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_NAMING_CHECK_H_
