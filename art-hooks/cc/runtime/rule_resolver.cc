// SPDX-License-Identifier: Apache-2.0

#include "rule_resolver.h"

#include <algorithm>

#include "art_field-inl.h"
#include "art_method-inl.h"
#include "base/casts.h"
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

// The distance of an argument's register from the end of the frame; `this`, in front of the parameters, is argument 0.
uint32_t FromEnd(const char* shorty, uint32_t length, uint32_t argument) {
  uint32_t from_end = argument == 0u ? 1u : 0u;
  for (uint32_t i = std::max(argument, 1u); i != length; ++i) {
    from_end += (shorty[i] == 'J' || shorty[i] == 'D') ? 2u : 1u;
  }
  return from_end;
}

// Finds the registers that hold the objects at the method's entry. Returns the reason why there are none, or an empty string.
std::string FindObject(const Rule& rule, ArtMethod* method, RuleMethod* found) REQUIRES_SHARED(Locks::mutator_lock_) {
  const bool has_this = !method->IsStatic();
  uint32_t length;
  const char* shorty = method->GetShorty(&length);
  if (rule.with_this) {
    if (!has_this) {
      return "is static: leave out 'this+'";
    }
    found->this_from_end = FromEnd(shorty, length, 0u);
  }
  if (rule.argument == Rule::kResult) {
    found->result = true;
    return shorty[0] == 'L' ? "" : "returns no object";
  }
  if (rule.argument < 0 || (rule.argument == 0 && !has_this)) {
    return "";
  }
  const uint32_t argument = static_cast<uint32_t>(rule.argument);
  if (argument >= length) {
    return "has " + std::to_string(length - 1u) + " parameters";
  }
  if (argument != 0u && shorty[argument] != 'L') {
    return "has no object as argument " + std::to_string(argument);
  }
  found->object_from_end = FromEnd(shorty, length, argument);
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
    RuleMethod found{&method, rule.name, 0u, 0u, false, rule.branches};
    std::string error = Obstacle(&method);
    if (error.empty()) {
      error = FindObject(rule, &method, &found);
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
        const std::string name_of_super = super->PrettyDescriptor();
        resolved->error +=
            "; its superclass " + name_of_super + " has one: name " + name_of_super + " in the rule";
        return;
      }
    }
  }
}

bool DeclaresField(ObjPtr<mirror::Class> klass, const std::string& name) REQUIRES_SHARED(Locks::mutator_lock_) {
  auto has = [&](auto&& fields) REQUIRES_SHARED(Locks::mutator_lock_) {
    for (ArtField& field : fields) {
      if (name == field.GetName()) {
        return true;
      }
    }
    return false;
  };
  return has(klass->GetIFields()) || has(klass->GetSFields());
}

void ResolveField(const Rule& rule, ObjPtr<mirror::Class> klass, Resolved* resolved)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  auto find = [&](auto&& fields) REQUIRES_SHARED(Locks::mutator_lock_) {
    for (ArtField& field : fields) {
      if (rule.member == field.GetName()) {
        resolved->fields.push_back({&field, rule.name, rule.reads, rule.writes, rule.value});
      }
    }
  };
  find(klass->GetIFields());
  find(klass->GetSFields());
  if (!resolved->fields.empty()) {
    return;
  }
  resolved->error = klass->PrettyDescriptor() + " declares no field " + rule.member;
  for (ObjPtr<mirror::Class> super = klass->GetSuperClass(); super != nullptr; super = super->GetSuperClass()) {
    if (DeclaresField(super, rule.member)) {
      const std::string name_of_super = super->PrettyDescriptor();
      resolved->error += "; its superclass " + name_of_super + " has one: name " + name_of_super + " in the rule";
      return;
    }
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
