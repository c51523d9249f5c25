// SPDX-License-Identifier: Apache-2.0

#include "field_watch.h"

#include "base/macros.h"
#include "handle.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/object_identity.h"
#include "instrumentation.h"
#include "jvalue.h"
#include "mirror/throwable.h"
#include "rule_table.h"
#include "runtime.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

class FieldWatch final : public instrumentation::InstrumentationListener {
 public:
  static constexpr uint32_t kEvents = instrumentation::Instrumentation::kFieldRead |
                                      instrumentation::Instrumentation::kFieldWritten;

  void FieldRead(Thread* self,
                 Handle<mirror::Object> object,
                 ArtMethod* method ATTRIBUTE_UNUSED,
                 uint32_t dex_pc ATTRIBUTE_UNUSED,
                 ArtField* field) override {
    Locks::mutator_lock_->AssertSharedHeld(self);
    const RuleField* rule = Find(self, field);
    if (rule != nullptr && rule->reads) {
      Record(self, kFieldRead, PackFieldRead(rule->name, IdentityOfLocked(self, object.Get())));
    }
  }

  using InstrumentationListener::FieldWritten;
  void FieldWritten(Thread* self,
                    Handle<mirror::Object> object,
                    ArtMethod* method ATTRIBUTE_UNUSED,
                    uint32_t dex_pc ATTRIBUTE_UNUSED,
                    ArtField* field,
                    const JValue& value ATTRIBUTE_UNUSED) override REQUIRES_SHARED(Locks::mutator_lock_) {
    const RuleField* rule = Find(self, field);
    if (rule != nullptr && rule->writes) {
      Record(self, kFieldWritten, PackFieldWritten(rule->name, IdentityOfLocked(self, object.Get())));
    }
  }

  // The rest is not asked for.
#if HINDSIGHT_ART >= 14
  void MethodEntered(Thread*, ArtMethod*) override {}
  using InstrumentationListener::MethodExited;
  void MethodExited(Thread*, ArtMethod*, instrumentation::OptionalFrame, JValue&) override {}
  void MethodUnwind(Thread*, ArtMethod*, uint32_t) override {}
#else
  void MethodEntered(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t) override {}
  using InstrumentationListener::MethodExited;
  void MethodExited(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t, const JValue&) override {}
  void MethodUnwind(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t) override {}
#endif
  void DexPcMoved(Thread*, Handle<mirror::Object>, ArtMethod*, uint32_t) override {}
  void ExceptionThrown(Thread*, Handle<mirror::Throwable>) override {}
  void ExceptionHandled(Thread*, Handle<mirror::Throwable>) override {}
  void Branch(Thread*, ArtMethod*, uint32_t, int32_t) override {}
  void WatchedFramePop(Thread*, const ShadowFrame&) override {}

 private:
  static const RuleField* Find(Thread* self, ArtField* field) {
    const RuleTable* table = Records(self, kCategoryRules) ? PublishedRules() : nullptr;
    return table != nullptr ? table->Find(field) : nullptr;
  }
};

FieldWatch* GetFieldWatch() {
  static FieldWatch watch;
  return &watch;
}

}  // namespace

void StartFieldWatch() {
  Runtime::Current()->GetInstrumentation()->AddListener(GetFieldWatch(), FieldWatch::kEvents);
}

void StopFieldWatch() {
  Runtime::Current()->GetInstrumentation()->RemoveListener(GetFieldWatch(), FieldWatch::kEvents);
}

}  // namespace hindsight
}  // namespace art
