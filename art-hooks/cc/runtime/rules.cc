// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/rules.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "android-base/logging.h"
#include "art_method-inl.h"
#include "base/casts.h"
#include "base/time_utils.h"
#include "branch_trace.h"
#include "bridge_bytes.h"
#include "class_linker.h"
#include "field_watch.h"
#include "gc/scoped_gc_critical_section.h"
#include "handle_scope-inl.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/lifecycle.h"
#include "jit/jit.h"
#include "loaded_dex_files.h"
#include "method_code.h"
#include "mirror/class-inl.h"
#include "oat_quick_method_header.h"
#include "rules_in_force.h"
#include "runtime.h"
#include "runtime_callbacks.h"
#include "scoped_thread_state_change-inl.h"
#include "stack.h"
#include "thread-current-inl.h"
#include "thread_list.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

// Whether rules can concern this class.
bool IsOfProgram(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
  return !klass->IsArrayClass() && !klass->IsPrimitive() && !klass->IsProxyClass();
}

// Set and freed while all threads are suspended, so a runnable thread may use it until its next safepoint.
std::atomic<InForce*> in_force(nullptr);

// Classes that are loaded while rules are in force.
class LoadedClasses final : public ClassLoadCallback {
 public:
  // No other thread can use the class yet, so it may take long.
  void ClassLoad(Handle<mirror::Class> klass) override REQUIRES_SHARED(Locks::mutator_lock_) {
    if (IsOfProgram(klass.Get())) {
      LookThroughCodeOf(klass);
    }
  }

  void ClassPrepare(Handle<mirror::Class> temporary ATTRIBUTE_UNUSED, Handle<mirror::Class> klass) override
      REQUIRES_SHARED(Locks::mutator_lock_) {
    // If other rules have come into force since ClassLoad, it looks again.
    InForce* rules = IsOfProgram(klass.Get()) ? LookThroughCodeOf(klass) : nullptr;
    if (rules == nullptr) {
      return;
    }
    std::vector<std::pair<size_t, Resolved>> resolved;
    const std::vector<size_t>* named = rules->Naming(klass.Get());
    for (size_t i = 0u; named != nullptr && i != named->size(); ++i) {
      const size_t rule = (*named)[i];
      resolved.emplace_back(rule, Resolve(rules->rules[rule], klass.Get()));
      const std::string& error = resolved.back().second.error;
      if (!error.empty()) {
        LOG(ERROR) << "hindsight: a rule cannot be followed: " << error;
      }
    }
    std::vector<Changed> changed;
    rules->FindCopies(klass.Get(), &changed);
    std::lock_guard<std::mutex> lock(rules->mutex);
    for (auto& [rule, result] : resolved) {
      for (ArtMethod* method : rules->Add(rule, std::move(result))) {
        changed.push_back({method, rule, /* is_interpreted= */ true});
      }
    }
    for (const Changed& change : changed) {
      if (rules->Note(change)) {
        UseInterpreterAfterLinking(change.method);
      }
    }
    if (named != nullptr) {
      rules->Publish();
    }
  }

 private:
  // Looks through the dex files of the class's loader if that was not done. Returns the rules in force, or null. May suspend
  // the thread.
  static InForce* LookThroughCodeOf(Handle<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
    for (;;) {
      InForce* rules = in_force.load(std::memory_order_acquire);
      if (rules == nullptr || rules->copies->Find(klass->GetDexFile()) != nullptr) {
        return rules;
      }
      Thread* self = Thread::Current();
      const std::shared_ptr<InlinedCopies> copies = rules->copies;
      const std::vector<LoadedDexFiles> loaded = {DexFilesWith(self, klass)};
      // Other rules may be in force afterwards. The class's handle keeps the dex files.
      ScopedThreadSuspension suspended(self, ThreadState::kNative);
      copies->Add(loaded);
    }
  }
};

LoadedClasses* GetLoadedClasses() {
  static LoadedClasses callback;
  return &callback;
}

// Finds what the rules name, and code that contains it, in the classes that are loaded. What it finds is in `found` and
// `found_copies`, so that it is forgotten if its class loader is unloaded.
class RuleFinder final : public ClassVisitor {
 public:
  explicit RuleFinder(InForce* rules) : rules_(rules) {}

  bool operator()(ObjPtr<mirror::Class> klass) override REQUIRES_SHARED(Locks::mutator_lock_) {
    if (!IsOfProgram(klass) || !klass->IsResolved() || klass->IsErroneous()) {
      return true;
    }
    std::lock_guard<std::mutex> lock(rules_->mutex);
    const std::vector<size_t>* named = rules_->Naming(klass);
    for (size_t i = 0u; named != nullptr && i != named->size(); ++i) {
      rules_->found.emplace_back((*named)[i], Resolve(rules_->rules[(*named)[i]], klass));
    }
    rules_->FindCopies(klass, &rules_->found_copies);
    return true;
  }

 private:
  InForce* const rules_;

  DISALLOW_COPY_AND_ASSIGN(RuleFinder);
};

// Changes the code of what was found. All threads are suspended; `rules.mutex` is held.
void ApplyFound(InForce* rules) REQUIRES(Locks::mutator_lock_) {
  std::vector<Changed> changed = std::move(rules->found_copies);
  for (auto& [rule, result] : rules->found) {
    for (ArtMethod* method : rules->Add(rule, std::move(result))) {
      changed.push_back({method, rule, /* is_interpreted= */ true});
    }
  }
  rules->found.clear();
  rules->found_copies.clear();
  for (const Changed& change : changed) {
    if (rules->Note(change)) {
      UseInterpreter(change.method);
    }
  }
}

// Counts, for each rule, the frames of a thread whose code was changed: they go on in the code before.
class ChangedFrames final : public StackVisitor {
 public:
  ChangedFrames(Thread* thread, InForce* rules) REQUIRES_SHARED(Locks::mutator_lock_)
      : StackVisitor(thread, /* context= */ nullptr, StackWalkKind::kSkipInlinedFrames), rules_(rules) {}

  bool VisitFrame() override REQUIRES_SHARED(Locks::mutator_lock_) {
    ArtMethod* method = GetMethod();
    const OatQuickMethodHeader* header = GetCurrentOatQuickMethodHeader();
    auto it = rules_->changes.find(method);
    if (it == rules_->changes.end() || header == nullptr || !header->IsOptimized()) {
      return true;
    }
    auto is_same = [&](const RuleMethod& other) { return other.method == method; };
    const std::vector<RuleMethod>& methods = rules_->methods;
    if (std::none_of(methods.begin(), methods.end(), is_same)) {
      Outcome& outcome = rules_->outcomes[it->second.rule];
      ++outcome.running;
      outcome.example = method->PrettyMethod();
    }
    return true;
  }

 private:
  InForce* const rules_;

  DISALLOW_COPY_AND_ASSIGN(ChangedFrames);
};

// Looks through the code of all dex files that loaded classes are from.
void LookThroughCode(InForce* rules) {
  Thread* self = Thread::Current();
  ScopedObjectAccess soa(self);
  VariableSizedHandleScope loaders(self);
  const std::vector<LoadedDexFiles> loaded = AllDexFiles(self, &loaders);
  // Nothing waits for this thread meanwhile. Only this thread ends the rules.
  ScopedThreadSuspension suspended(self, ThreadState::kNative);
  rules->copies->Add(loaded);
}

// Runs `change` while all threads are suspended, the JIT is stopped, and no collection runs. Returns for how long they were
// suspended, in nanoseconds.
template <typename Change>
uint64_t WhileAllAreSuspended(Change change) {
  Thread* self = Thread::Current();
  jit::ScopedJitSuspend no_jit;
  gc::ScopedGCCriticalSection no_gc(self, gc::kGcCauseInstrumentation, gc::kCollectorTypeInstrumentation);
  ScopedSuspendAll suspended("Hindsight's rules");
  const uint64_t begin = NanoTime();
  change();
  return NanoTime() - begin;
}

// Follows the rules in the classes that are loaded.
void FollowInLoadedClasses(InForce* rules) {
  const uint64_t begin = NanoTime();
  LookThroughCode(rules);
  const uint64_t looked = NanoTime();
  {
    Thread* self = Thread::Current();
    ScopedObjectAccess soa(self);
    // As for names of methods (art_services.cc), no collection may run meanwhile.
    gc::ScopedGCCriticalSection no_gc(self, gc::kGcCauseClassLinker, gc::kCollectorTypeClassLinker);
    RuleFinder finder(rules);
    Runtime::Current()->GetClassLinker()->VisitClasses(&finder);
  }
  const uint64_t found = NanoTime();
  const uint64_t suspended = WhileAllAreSuspended([&]() REQUIRES(Locks::mutator_lock_) {
    std::lock_guard<std::mutex> lock(rules->mutex);
    ApplyFound(rules);
    rules->Publish();
    rules->FreeOldTables();
    MutexLock threads(Thread::Current(), *Locks::thread_list_lock_);
    for (Thread* thread : Runtime::Current()->GetThreadList()->GetList()) {
      ChangedFrames(thread, rules).WalkStack();
    }
  });
  LOG(INFO) << "hindsight: rules began: code " << PrettyDuration(looked - begin) << ", classes "
            << PrettyDuration(found - looked) << ", all threads suspended " << PrettyDuration(suspended);
}

// Gives methods that must be interpreted the interpreter's code again if ART has given them other code: Android 14 does
// when it verifies a class, the tracer of Debug.startMethodTracing() when it begins and ends, a redefinition of a class.
void UndoReplacements(InForce* rules) {
  std::vector<ArtMethod*> replaced;
  auto find = [&]() REQUIRES_SHARED(Locks::mutator_lock_) {
    replaced.clear();
    for (const auto& [method, change] : rules->changes) {
      if (change.is_interpreted && !IsInterpreted(method)) {
        replaced.push_back(method);
      }
    }
  };
  {
    ScopedObjectAccess soa(Thread::Current());
    std::lock_guard<std::mutex> lock(rules->mutex);
    find();
  }
  if (replaced.empty()) {
    return;
  }
  WhileAllAreSuspended([&]() REQUIRES(Locks::mutator_lock_) {
    std::lock_guard<std::mutex> lock(rules->mutex);
    find();
    for (ArtMethod* method : replaced) {
      Change& change = rules->changes[method];
      change.forbidden = ForbidCompilation(method) || change.forbidden;
      UseInterpreter(method);
      ++rules->outcomes[change.rule].replaced;
    }
  });
}

// Ends the rules in force: all methods are as before.
void EndRules() REQUIRES(Locks::mutator_lock_) {
  std::unique_ptr<InForce> rules(in_force.exchange(nullptr));
  PublishRules(nullptr);
  Runtime::Current()->GetRuntimeCallbacks()->RemoveClassLoadCallback(GetLoadedClasses());
  if (rules->HasFields()) {
    StopFieldWatch();
  }
  if (rules->HasBranches() || rules->HasResults()) {
    StopBranchTrace();
  }
  for (auto& [method, change] : rules->changes) {
    if (change.forbidden) {
      AllowCompilation(method, change.was_verified);
    }
    UseLinkedCode(method);
  }
}

std::unique_ptr<InForce> Read(rust::Slice<const bridge::RuleSpec> specs) {
  auto text = [](const rust::String& string) { return std::string(string.data(), string.size()); };
  std::vector<Rule> rules;
  for (const bridge::RuleSpec& spec : specs) {
    rules.push_back({spec.is_method,
                     text(spec.class_descriptor),
                     text(spec.member),
                     text(spec.parameters),
                     spec.argument,
                     spec.with_this,
                     spec.reads,
                     spec.writes,
                     spec.value,
                     spec.branches,
                     spec.number});
  }
  return std::make_unique<InForce>(std::move(rules));
}

std::string Message(const Outcome& outcome) {
  if (!outcome.error.empty()) {
    return outcome.error;
  }
  std::string message;
  if (outcome.running != 0u) {
    message = "it may have been inlined into " + std::to_string(outcome.running) +
              " calls that were running when the rule began, for instance of " + outcome.example +
              ": these calls go on without its events";
  }
  if (outcome.replaced != 0u) {
    message += (message.empty() ? "" : "; ") + std::string("ART replaced the code of its methods ") +
               std::to_string(outcome.replaced) +
               " times, which is undone by each request of the status: calls before it have no events";
  }
  return message;
}

}  // namespace

void SetRules(rust::Slice<const bridge::RuleSpec> specs) {
  InForce* rules = specs.empty() ? nullptr : Read(specs).release();
  if (rules == nullptr && in_force.load() == nullptr) {
    return;
  }
  // From here on, classes that are loaded are looked at when they are.
  WhileAllAreSuspended([&]() REQUIRES(Locks::mutator_lock_) {
    if (in_force.load() != nullptr) {
      EndRules();
    }
    if (rules != nullptr) {
      in_force.store(rules, std::memory_order_release);
      Runtime::Current()->GetRuntimeCallbacks()->AddClassLoadCallback(GetLoadedClasses());
      if (rules->HasFields()) {
        StartFieldWatch();
      }
      // Results are seen in the slower interpreter only, which notes its instructions, and which listeners for branches need.
      if (rules->HasBranches() || rules->HasResults()) {
        StartBranchTrace();
      }
    }
  });
  if (rules == nullptr) {
    return;
  }
  FollowInLoadedClasses(rules);
}

rust::Vec<bridge::RuleReport> RuleReports() {
  rust::Vec<bridge::RuleReport> reports;
  // Only this thread ends the rules.
  InForce* rules = in_force.load();
  if (rules == nullptr) {
    return reports;
  }
  UndoReplacements(rules);
  std::lock_guard<std::mutex> lock(rules->mutex);
  for (const Outcome& outcome : rules->outcomes) {
    const bridge::RuleState state = !outcome.error.empty() ? bridge::RuleState::Failed
        : !outcome.members.empty()                         ? bridge::RuleState::On
                                                           : bridge::RuleState::Waits;
    reports.push_back({state, rust::String::lossy(Message(outcome))});
  }
  return reports;
}

void StaticMethodsLinked(ObjPtr<mirror::Class> klass) {
  InForce* rules = in_force.load(std::memory_order_acquire);
  if (LIKELY(rules == nullptr)) {
    return;
  }
  std::lock_guard<std::mutex> lock(rules->mutex);
  for (ArtMethod& method : klass->GetMethods(kRuntimePointerSize)) {
    auto it = rules->changes.find(&method);
    if (it == rules->changes.end()) {
      continue;
    }
    // Android 14 has also given all methods its other interpreter (nterp), which knows no rules, when it verified the class.
    if (method.IsStatic() || (HINDSIGHT_ART >= 14 && it->second.is_interpreted)) {
      UseInterpreterAfterLinking(&method);
    }
  }
}

void ForgetMethodsOf(LinearAlloc* methods) {
  ForgetBranches();
  // Rules do not end during a collection.
  InForce* rules = in_force.load(std::memory_order_acquire);
  if (UNLIKELY(rules != nullptr)) {
    rules->Forget(methods);
  }
}

}  // namespace hindsight
}  // namespace art
