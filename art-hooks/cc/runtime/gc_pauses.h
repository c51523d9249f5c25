// SPDX-License-Identifier: Apache-2.0
//
// Events of garbage collections that suspend all threads.

#ifndef HINDSIGHT_RUNTIME_GC_PAUSES_H_
#define HINDSIGHT_RUNTIME_GC_PAUSES_H_

namespace art {
namespace hindsight {

// From here on, a thread that runs a collection records when it suspends all threads and resumes them, if it records
// events of the runtime. ART has one listener: an agent (JVMTI) that listens to collections takes its place.
void RecordGcPauses();

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_GC_PAUSES_H_
