// SPDX-License-Identifier: Apache-2.0

#include "rule_resolver.h"

#include "art_field-inl.h"
#include "art_method-inl.h"
#include "base/casts.h"
#include "dex/code_item_accessors-inl.h"
#include "dex/descriptors_names.h"
#include "mirror/class-inl.h"

namespace art {
namespace hindsight {

namespace {

// Why a method cannot be executed by the interpreter with its events, or empty.
std::string Obstacle(ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_) {
  if (method->IsNative()) {
    return "is native: name the method that calls it";
  }
  if (method->IsAbstract()) {
    return "is abstract: name the class that implements it";
  }
  if (method->IsProxyMethod() || !method->IsInvokable()) {
    return "has no code";
  }
  if (method->IsIntrinsic()) {
    return "was inlined away: the compilers replace its calls by code of their own (an intrinsic)";
  }
  if (method->IsConstructor() && method->GetDeclaringClass()->IsStringClass()) {
    return "was inlined away: the runtime replaces constructors of String";
  }
  if (method->GetDeclaringClass()->IsInterface() && !method->IsStatic()) {
    return "is a default method of an interface, which each class has a copy of: name a method of a class";
  }
  return "";
}

// Finds the register that holds the object at the method's entry. Returns the reason why there is none, or an empty
// string.
std::string FindObject(const Rule& rule, ArtMethod* method, int32_t* object_register)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  *object_register = -1;
  const bool has_this = !method->IsStatic();
  if (rule.argument < 0 || (rule.argument == 0 && !has_this)) {
    return "";
  }
  CodeItemDataAccessor code(method->DexInstructionData());
  int32_t found = code.RegistersSize() - code.InsSize();
  if (rule.argument > 0) {
    uint32_t length;
    const char* shorty = method->GetShorty(&length);
    const uint32_t argument = static_cast<uint32_t>(rule.argument);
    if (argument >= length) {
      return "has " + std::to_string(length - 1u) + " parameters";
    }
    if (shorty[argument] != 'L') {
      return "has no object as argument " + std::to_string(argument);
    }
    found += has_this ? 1 : 0;
    for (uint32_t i = 1u; i != argument; ++i) {
      found += (shorty[i] == 'J' || shorty[i] == 'D') ? 2 : 1;
    }
  }
  *object_register = found;
  return "";
}

bool HasParameters(ArtMethod* method, const std::string& parameters) REQUIRES_SHARED(Locks::mutator_lock_) {
  const std::string signature = method->GetSignature().ToString();
  return signature.compare(0u, parameters.size(), parameters) == 0;
}

void ResolveMethod(const Rule& rule, ObjPtr<mirror::Class> klass, Resolved* resolved)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  std::string others;
  for (ArtMethod& method : klass->GetDeclaredMethods(kRuntimePointerSize)) {
    if (rule.member != method.GetName()) {
      continue;
    }
    if (!HasParameters(&method, rule.parameters)) {
      others += (others.empty() ? "" : ", ") + method.GetSignature().ToString();
      continue;
    }
    RuleMethod found{&method, rule.name, -1};
    std::string error = Obstacle(&method);
    if (error.empty()) {
      error = FindObject(rule, &method, &found.object_register);
    }
    if (!error.empty()) {
      resolved->error = method.PrettyMethod() + " " + error;
      return;
    }
    resolved->methods.push_back(found);
  }
  if (!resolved->methods.empty()) {
    return;
  }
  const std::string name = rule.member + rule.parameters;
  resolved->error = klass->PrettyDescriptor() + " has no method " + name;
  if (!others.empty()) {
    resolved->error += "; methods of this name have the signatures " + others;
    return;
  }
  for (ObjPtr<mirror::Class> super = klass->GetSuperClass(); super != nullptr; super = super->GetSuperClass()) {
    for (ArtMethod& method : super->GetDeclaredMethods(kRuntimePointerSize)) {
      if (rule.member == method.GetName() && HasParameters(&method, rule.parameters)) {
        resolved->error += "; it inherits that of " + super->PrettyDescriptor() + ": name this class";
        return;
      }
    }
  }
}

void ResolveField(const Rule& rule, ObjPtr<mirror::Class> klass, Resolved* resolved)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  auto find = [&](auto&& fields) REQUIRES_SHARED(Locks::mutator_lock_) {
    for (ArtField& field : fields) {
      if (rule.member == field.GetName()) {
        resolved->fields.push_back({&field, rule.name, rule.reads, rule.writes});
      }
    }
  };
  find(klass->GetIFields());
  find(klass->GetSFields());
  if (resolved->fields.empty()) {
    resolved->error = klass->PrettyDescriptor() + " declares no field " + rule.member;
  }
}

}  // namespace

Resolved Resolve(const Rule& rule, ObjPtr<mirror::Class> klass) {
  Resolved resolved;
  if (rule.is_method) {
    ResolveMethod(rule, klass, &resolved);
  } else {
    ResolveField(rule, klass, &resolved);
  }
  return resolved;
}

}  // namespace hindsight
}  // namespace art
