// SPDX-License-Identifier: Apache-2.0

#include "field_watch.h"

#include "art_field-inl.h"
#include "art_method-inl.h"
#include "handle.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/object_identity.h"
#include "jvalue-inl.h"
#include "no_listener.h"
#include "rule_table.h"
#include "runtime.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

constexpr uint32_t kNoDexPc = 0xffffffffu;

// A value as the events have it (VALUE_TYPES in trace-format/src/catalogue.rs).
struct Value {
  ValueType type;
  uint64_t bits;
};

Value ValueOf(Thread* self, ArtField* field, const JValue& value) REQUIRES_SHARED(Locks::mutator_lock_) {
  auto extended = [](int64_t number) { return static_cast<uint64_t>(number); };
  switch (field->GetTypeAsPrimitiveType()) {
    case Primitive::kPrimBoolean:
      return {kValueTypeBoolean, value.GetZ() != 0u ? 1u : 0u};
    case Primitive::kPrimByte:
      return {kValueTypeByte, extended(value.GetB())};
    case Primitive::kPrimChar:
      return {kValueTypeChar, value.GetC()};
    case Primitive::kPrimShort:
      return {kValueTypeShort, extended(value.GetS())};
    case Primitive::kPrimInt:
      return {kValueTypeInt, extended(value.GetI())};
    case Primitive::kPrimLong:
      return {kValueTypeLong, extended(value.GetJ())};
    case Primitive::kPrimFloat:
      return {kValueTypeFloat, static_cast<uint32_t>(value.GetI())};
    case Primitive::kPrimDouble:
      return {kValueTypeDouble, extended(value.GetJ())};
    case Primitive::kPrimNot:
      return {kValueTypeObject, IdentityOfLocked(self, value.GetL())};
    default:
      return {kValueTypeNotRecorded, 0u};
  }
}

// The field's value now. `object` has it, if it is not static.
JValue Read(ArtField* field, ObjPtr<mirror::Object> object) REQUIRES_SHARED(Locks::mutator_lock_) {
  const ObjPtr<mirror::Object> owner = field->IsStatic() ? field->GetDeclaringClass() : object;
  JValue value;
  switch (field->GetTypeAsPrimitiveType()) {
    case Primitive::kPrimBoolean:
      value.SetZ(field->GetBoolean(owner));
      break;
    case Primitive::kPrimByte:
      value.SetB(field->GetByte(owner));
      break;
    case Primitive::kPrimChar:
      value.SetC(field->GetChar(owner));
      break;
    case Primitive::kPrimShort:
      value.SetS(field->GetShort(owner));
      break;
    case Primitive::kPrimInt:
    case Primitive::kPrimFloat:
      value.SetI(static_cast<int32_t>(field->Get32(owner)));
      break;
    case Primitive::kPrimLong:
    case Primitive::kPrimDouble:
      value.SetJ(static_cast<int64_t>(field->Get64(owner)));
      break;
    default:
      value.SetL(field->GetObject(owner));
  }
  return value;
}

class FieldWatch final : public NoListener {
 public:
  static constexpr uint32_t kEvents = instrumentation::Instrumentation::kFieldRead |
                                      instrumentation::Instrumentation::kFieldWritten;

  void FieldRead(Thread* self,
                 Handle<mirror::Object> object,
                 ArtMethod* method,
                 uint32_t dex_pc,
                 ArtField* field) override REQUIRES_SHARED(Locks::mutator_lock_) {
    const RuleField* rule = Find(self, field);
    if (rule == nullptr || !rule->reads) {
      return;
    }
    Value value = {kValueTypeNotRecorded, 0u};
    if (rule->value) {
      value = ValueOf(self, field, Read(field, object.Get()));
    }
    Record(self,
           kFieldRead,
           PackFieldRead(rule->name,
                         value.type,
                         IdentityOfLocked(self, object.Get()),
                         DexPcIn(method, dex_pc),
                         reinterpret_cast<uintptr_t>(method),
                         value.bits));
  }

  using NoListener::FieldWritten;
  void FieldWritten(Thread* self,
                    Handle<mirror::Object> object,
                    ArtMethod* method,
                    uint32_t dex_pc,
                    ArtField* field,
                    const JValue& written) override REQUIRES_SHARED(Locks::mutator_lock_) {
    const RuleField* rule = Find(self, field);
    if (rule == nullptr || !rule->writes) {
      return;
    }
    Value value = {kValueTypeNotRecorded, 0u};
    if (rule->value) {
      value = ValueOf(self, field, written);
    }
    Record(self,
           kFieldWritten,
           PackFieldWritten(rule->name,
                            value.type,
                            IdentityOfLocked(self, object.Get()),
                            DexPcIn(method, dex_pc),
                            reinterpret_cast<uintptr_t>(method),
                            value.bits));
  }

 private:
  static const RuleField* Find(Thread* self, ArtField* field) {
    const RuleTable* table = Records(self, kCategoryRules) ? PublishedRules() : nullptr;
    return table != nullptr ? table->Find(field) : nullptr;
  }

  // ART gives 0 for an access by JNI.
  static uint32_t DexPcIn(ArtMethod* method, uint32_t dex_pc) REQUIRES_SHARED(Locks::mutator_lock_) {
    return method->IsNative() ? kNoDexPc : dex_pc;
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
