// SPDX-License-Identifier: Apache-2.0
//
// Events of garbage collections that suspend all threads.

#ifndef HINDSIGHT_RUNTIME_GC_PAUSES_H_
#define HINDSIGHT_RUNTIME_GC_PAUSES_H_

namespace art {
namespace hindsight {

// From here on, a thread that runs a collection records when all threads are suspended for it and when it resumes them, if it
// records events of the runtime. ART has one listener: an agent (JVMTI) that has asked for collections keeps its own, and one
// that asks later takes this one's place for good. A pause in which that happens has only one of its events.
void RecordGcPauses();

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_GC_PAUSES_H_
