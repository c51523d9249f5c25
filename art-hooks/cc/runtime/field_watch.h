// SPDX-License-Identifier: Apache-2.0
//
// Accesses to the fields that rules name, as events. ART calls a listener for accesses by the interpreter and by JNI, not
// for those by reflection.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_FIELD_WATCH_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_FIELD_WATCH_H_

#include "base/locks.h"

namespace art {
namespace hindsight {

// From now on, accesses to the fields in the published table are recorded. All interpreted code is slower meanwhile: ART's
// fast interpreter calls no listener. All threads are suspended.
void StartFieldWatch() REQUIRES(Locks::mutator_lock_, !Locks::thread_list_lock_, !Locks::classlinker_classes_lock_);
void StopFieldWatch() REQUIRES(Locks::mutator_lock_, !Locks::thread_list_lock_, !Locks::classlinker_classes_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_FIELD_WATCH_H_
