// SPDX-License-Identifier: Apache-2.0
//
// For tests: compares walks over known frames with ART's own. With the environment variable HINDSIGHT_CHECK_STACKS each
// stack is walked in both ways, and the end of tracing prints to stderr:
//
//   hindsight: stacks: N walks over known frames, N with ART, N different
//
// With the value "art", all stacks are walked by ART.

#ifndef HINDSIGHT_RUNTIME_WALK_CHECK_H_
#define HINDSIGHT_RUNTIME_WALK_CHECK_H_

#include "hindsight/runtime/lab_build.h"
#include "known_frames.h"

namespace art {
namespace hindsight {

#if defined(HINDSIGHT_LAB)

// Whether stacks are checked.
bool ChecksWalks();

// Whether ART is to walk all stacks.
bool WalksWithArtOnly();

// Counts a stack.
void CountWalk(bool with_art);

// Counts the stack as different if the walks do not agree.
void CompareWalks(const FrameList& known, const FrameList& arts);

// Prints the numbers, if stacks are checked.
void ReportWalks();

#else

constexpr bool WalksWithArtOnly() { return false; }
inline void CountWalk(bool) {}
inline void ReportWalks() {}

#endif

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_WALK_CHECK_H_
