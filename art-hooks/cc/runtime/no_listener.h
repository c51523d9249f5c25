// SPDX-License-Identifier: Apache-2.0
//
// A listener of ART's instrumentation that does nothing.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_NO_LISTENER_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_NO_LISTENER_H_

#include "handle.h"
#include "hindsight/compat.h"
#include "instrumentation.h"
#include "jvalue.h"
#include "mirror/throwable.h"

namespace art {
namespace hindsight {

// Base of listeners that are registered for some events only.
class NoListener : public instrumentation::InstrumentationListener {
 public:
#if HINDSIGHT_ART >= 14
  void MethodEntered(Thread*, ArtMethod*) override {}
  using InstrumentationListener::MethodExited;
  void MethodExited(Thread*, ArtMethod*, instrumentation::OptionalFrame, JValue&) override {}
  void MethodUnwind(Thread*, ArtMethod*, uint32_t) override {}
#else
  void MethodEntered(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t) override {}
  using InstrumentationListener::MethodExited;
#if HINDSIGHT_ART >= 11
  void MethodExited(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t, instrumentation::OptionalFrame,
                    JValue&) override {}
#else
  void MethodExited(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t, const JValue&) override {}
#endif
  void MethodUnwind(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t) override {}
#endif
  void FieldRead(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t, ArtField*) override {}
  using InstrumentationListener::FieldWritten;
  void FieldWritten(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t, ArtField*, const JValue&) override {}
  void DexPcMoved(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t) override {}
  void ExceptionThrown(Thread*, Handle<mirror::Throwable>) override {}
  void ExceptionHandled(Thread*, Handle<mirror::Throwable>) override {}
  void Branch(Thread*, ArtMethod*, uint32_t, int32_t) override {}
  void WatchedFramePop(Thread*, const ShadowFrame&) override {}
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_NO_LISTENER_H_
