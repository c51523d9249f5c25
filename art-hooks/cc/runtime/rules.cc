// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/rules.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "android-base/logging.h"
#include "art_method-inl.h"
#include "base/casts.h"
#include "bridge_bytes.h"
#include "class_linker.h"
#include "field_watch.h"
#include "gc/scoped_gc_critical_section.h"
#include "handle.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/lifecycle.h"
#include "jit/jit.h"
#include "inlined_copies.h"
#include "linear_alloc.h"
#include "method_code.h"
#include "mirror/class-inl.h"
#include "oat_quick_method_header.h"
#include "rule_resolver.h"
#include "rule_table.h"
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

// Why the code of a method was changed.
struct Change {
  // Index of a rule.
  size_t rule;
  // The method must not be compiled, because a rule names it or a field that it accesses. Otherwise its compiled code may
  // contain an inlined method of a rule; it may be compiled again.
  bool is_interpreted;
  // Its compilation was forbidden for the rule.
  bool forbidden;
};

// How a rule is followed.
struct Outcome {
  bool is_on = false;
  std::string error;
  // Frames that execute compiled code in which the rule's method may have been inlined, and the method of one of them.
  size_t running = 0u;
  std::string example;
};

// The rules that are in force. `rules` and `by_class` do not change while it is published; the rest is protected by
// `mutex`. A thread that holds the mutex passes no safepoint, so that a thread may take it while all others are suspended.
struct InForce {
  std::vector<Rule> rules;
  // The rules of a class, by its descriptor.
  std::unordered_map<std::string, std::vector<size_t>> by_class;

  std::mutex mutex;
  std::vector<Outcome> outcomes;
  std::vector<RuleMethod> methods;
  std::vector<RuleField> fields;
  // The methods with other code than before the rules.
  std::unordered_map<ArtMethod*, Change> changes;
  std::unique_ptr<InlinedCopies> copies;
  // The published table, and earlier ones that a thread may still look into.
  std::vector<std::unique_ptr<const RuleTable>> tables;

  // Adds what a rule names in a class. Returns the methods that are new.
  std::vector<ArtMethod*> Add(size_t rule, Resolved resolved) {
    Outcome& outcome = outcomes[rule];
    if (!resolved.error.empty()) {
      outcome.error = std::move(resolved.error);
      return {};
    }
    outcome.is_on = true;
    std::vector<ArtMethod*> added;
    for (const RuleMethod& method : resolved.methods) {
      auto is_same = [&](const RuleMethod& other) { return other.method == method.method; };
      if (std::none_of(methods.begin(), methods.end(), is_same)) {
        methods.push_back(method);
        added.push_back(method.method);
      }
    }
    for (const RuleField& field : resolved.fields) {
      auto is_same = [&](const RuleField& other) { return other.field == field.field; };
      if (std::none_of(fields.begin(), fields.end(), is_same)) {
        fields.push_back(field);
      }
    }
    return added;
  }

  void Publish() {
    tables.push_back(std::make_unique<RuleTable>(methods, fields));
    PublishRules(tables.back().get());
  }
};

// A method whose code must be changed.
struct Changed {
  ArtMethod* method;
  size_t rule;
  bool is_interpreted;
};

// The methods of a class whose code contains what rules name. `rules.mutex` is held.
void FindCopies(const InForce& rules, ObjPtr<mirror::Class> klass, std::vector<Changed>* found)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  for (ArtMethod& method : klass->GetMethods(kRuntimePointerSize)) {
    if (method.IsNative() || method.IsAbstract() || !method.IsInvokable()) {
      continue;
    }
    const InlinedCopies::Contents* contents =
        rules.copies->Find(*method.GetDexFile(), method.GetDexMethodIndex());
    if (contents != nullptr) {
      found->push_back({&method, contents->rule, contents->is_access});
    }
  }
}

// Changes the code of a method by `use_interpreter`. `rules.mutex` is held.
template <typename UseInterpreter>
void ChangeCode(InForce* rules, const Changed& changed, UseInterpreter use_interpreter)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  auto [it, is_new] = rules->changes.insert({changed.method, {changed.rule, false, false}});
  Change& change = it->second;
  if (changed.is_interpreted && !change.is_interpreted) {
    change.is_interpreted = true;
    change.forbidden = ForbidCompilation(changed.method);
  }
  if (is_new || changed.is_interpreted) {
    use_interpreter(changed.method);
  }
}

// Whether rules can concern this class.
bool IsOfProgram(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
  return !klass->IsArrayClass() && !klass->IsPrimitive() && !klass->IsProxyClass();
}

// Set and freed while all threads are suspended, so a runnable thread may use it until its next safepoint.
std::atomic<InForce*> in_force(nullptr);

// The rules that name this class, or null.
const std::vector<size_t>* RulesOf(const InForce& rules, ObjPtr<mirror::Class> klass)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  std::string storage;
  auto it = rules.by_class.find(klass->GetDescriptor(&storage));
  return it != rules.by_class.end() ? &it->second : nullptr;
}

// Classes that are loaded while rules are in force.
class LoadedClasses final : public ClassLoadCallback {
 public:
  void ClassLoad(Handle<mirror::Class> klass ATTRIBUTE_UNUSED) override {}

  void ClassPrepare(Handle<mirror::Class> temporary ATTRIBUTE_UNUSED, Handle<mirror::Class> klass) override
      REQUIRES_SHARED(Locks::mutator_lock_) {
    InForce* rules = in_force.load(std::memory_order_acquire);
    if (rules == nullptr || !IsOfProgram(klass.Get())) {
      return;
    }
    std::vector<std::pair<size_t, Resolved>> resolved;
    const std::vector<size_t>* named = RulesOf(*rules, klass.Get());
    for (size_t i = 0u; named != nullptr && i != named->size(); ++i) {
      const size_t rule = (*named)[i];
      resolved.emplace_back(rule, Resolve(rules->rules[rule], klass.Get()));
      const std::string& error = resolved.back().second.error;
      if (!error.empty()) {
        LOG(ERROR) << "hindsight: a rule cannot be followed: " << error;
      }
    }
    std::lock_guard<std::mutex> lock(rules->mutex);
    if (!rules->copies->Knows(klass->GetDexFile())) {
      rules->copies->Add(klass->GetDexFile());
    }
    std::vector<Changed> changed;
    FindCopies(*rules, klass.Get(), &changed);
    for (auto& [rule, result] : resolved) {
      for (ArtMethod* method : rules->Add(rule, std::move(result))) {
        changed.push_back({method, rule, /* is_interpreted= */ true});
      }
    }
    for (const Changed& change : changed) {
      ChangeCode(rules, change, UseInterpreterAfterLinking);
    }
    if (named != nullptr) {
      rules->Publish();
    }
  }
};

LoadedClasses* GetLoadedClasses() {
  static LoadedClasses callback;
  return &callback;
}

// Finds what the rules name, and code that contains it, in the classes that are loaded.
class RuleFinder final : public ClassVisitor {
 public:
  explicit RuleFinder(InForce* rules) : rules_(rules) {}

  bool operator()(ObjPtr<mirror::Class> klass) override REQUIRES_SHARED(Locks::mutator_lock_) {
    if (!IsOfProgram(klass) || !klass->IsResolved() || klass->IsErroneous()) {
      return true;
    }
    const std::vector<size_t>* named = RulesOf(*rules_, klass);
    for (size_t i = 0u; named != nullptr && i != named->size(); ++i) {
      resolved_.emplace_back((*named)[i], Resolve(rules_->rules[(*named)[i]], klass));
    }
    std::lock_guard<std::mutex> lock(rules_->mutex);
    FindCopies(*rules_, klass, &copies_);
    return true;
  }

  // Changes the code of what was found. All threads are suspended; `rules.mutex` is held.
  void Apply() REQUIRES(Locks::mutator_lock_) {
    for (auto& [rule, result] : resolved_) {
      for (ArtMethod* method : rules_->Add(rule, std::move(result))) {
        copies_.push_back({method, rule, /* is_interpreted= */ true});
      }
    }
    for (const Changed& change : copies_) {
      ChangeCode(rules_, change, UseInterpreter);
    }
  }

 private:
  InForce* const rules_;
  std::vector<std::pair<size_t, Resolved>> resolved_;
  std::vector<Changed> copies_;

  DISALLOW_COPY_AND_ASSIGN(RuleFinder);
};

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

// Finds a dex file of a loaded class that was not looked through yet.
class DexFileFinder final : public ClassVisitor {
 public:
  explicit DexFileFinder(InForce* rules) : rules_(rules), found_(nullptr) {}

  bool operator()(ObjPtr<mirror::Class> klass) override REQUIRES_SHARED(Locks::mutator_lock_) {
    if (IsOfProgram(klass) && klass->IsResolved() && klass->GetDexCache() != nullptr) {
      std::lock_guard<std::mutex> lock(rules_->mutex);
      const DexFile& dex_file = klass->GetDexFile();
      found_ = rules_->copies->Knows(dex_file) ? nullptr : &dex_file;
    }
    return found_ == nullptr;
  }

  // Null: there is none.
  const DexFile* Found() const { return found_; }

 private:
  InForce* const rules_;
  const DexFile* found_;

  DISALLOW_COPY_AND_ASSIGN(DexFileFinder);
};

// Looks through the code of all dex files that loaded classes are from.
void LookThroughCode(InForce* rules) {
  Thread* self = Thread::Current();
  const DexFile* next;
  do {
    // One dex file after the other, so that a garbage collection does not wait for long.
    ScopedObjectAccess soa(self);
    gc::ScopedGCCriticalSection no_gc(self, gc::kGcCauseClassLinker, gc::kCollectorTypeClassLinker);
    DexFileFinder finder(rules);
    Runtime::Current()->GetClassLinker()->VisitClasses(&finder);
    next = finder.Found();
    if (next != nullptr) {
      std::lock_guard<std::mutex> lock(rules->mutex);
      rules->copies->Add(*next);
    }
  } while (next != nullptr);
}

// Runs `change` while all threads are suspended, the JIT is stopped, and no collection runs.
template <typename Change>
void WhileAllAreSuspended(Change change) {
  Thread* self = Thread::Current();
  jit::ScopedJitSuspend no_jit;
  gc::ScopedGCCriticalSection no_gc(self, gc::kGcCauseInstrumentation, gc::kCollectorTypeInstrumentation);
  ScopedSuspendAll suspended("Hindsight's rules");
  change();
}

// Follows the rules in the classes that are loaded.
void FollowInLoadedClasses(InForce* rules) {
  LookThroughCode(rules);
  RuleFinder finder(rules);
  {
    Thread* self = Thread::Current();
    ScopedObjectAccess soa(self);
    // As for names of methods (art_services.cc), no collection may run meanwhile.
    gc::ScopedGCCriticalSection no_gc(self, gc::kGcCauseClassLinker, gc::kCollectorTypeClassLinker);
    Runtime::Current()->GetClassLinker()->VisitClasses(&finder);
  }
  WhileAllAreSuspended([&]() REQUIRES(Locks::mutator_lock_) {
    std::lock_guard<std::mutex> lock(rules->mutex);
    finder.Apply();
    rules->Publish();
    MutexLock threads(Thread::Current(), *Locks::thread_list_lock_);
    for (Thread* thread : Runtime::Current()->GetThreadList()->GetList()) {
      ChangedFrames(thread, rules).WalkStack();
    }
  });
}

bool HasFieldRules(const InForce& rules) {
  return std::any_of(rules.rules.begin(), rules.rules.end(), [](const Rule& rule) { return !rule.is_method; });
}

// Ends the rules in force: all methods are as before.
void EndRules() REQUIRES(Locks::mutator_lock_) {
  std::unique_ptr<InForce> rules(in_force.exchange(nullptr));
  PublishRules(nullptr);
  Runtime::Current()->GetRuntimeCallbacks()->RemoveClassLoadCallback(GetLoadedClasses());
  if (HasFieldRules(*rules)) {
    StopFieldWatch();
  }
  for (auto& [method, change] : rules->changes) {
    if (change.forbidden) {
      AllowCompilation(method);
    }
    UseLinkedCode(method);
  }
}

std::unique_ptr<InForce> Read(rust::Slice<const bridge::RuleSpec> specs) {
  auto text = [](const rust::String& string) { return std::string(string.data(), string.size()); };
  auto rules = std::make_unique<InForce>();
  for (const bridge::RuleSpec& spec : specs) {
    rules->by_class[text(spec.class_descriptor)].push_back(rules->rules.size());
    rules->rules.push_back({spec.is_method,
                            text(spec.class_descriptor),
                            text(spec.member),
                            text(spec.parameters),
                            spec.argument,
                            spec.reads,
                            spec.writes,
                            spec.number});
  }
  rules->outcomes.resize(rules->rules.size());
  rules->copies = std::make_unique<InlinedCopies>(rules->rules);
  return rules;
}

std::string Message(const Outcome& outcome) {
  if (!outcome.error.empty() || outcome.running == 0u) {
    return outcome.error;
  }
  return "it may have been inlined into " + std::to_string(outcome.running) +
         " calls that were running when the rule began, for instance of " + outcome.example +
         ": these calls go on without its events";
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
      if (HasFieldRules(*rules)) {
        StartFieldWatch();
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
  std::lock_guard<std::mutex> lock(rules->mutex);
  for (const Outcome& outcome : rules->outcomes) {
    const bridge::RuleState state = !outcome.error.empty() ? bridge::RuleState::Failed
        : outcome.is_on                                    ? bridge::RuleState::On
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
  for (ArtMethod& method : klass->GetDirectMethods(kRuntimePointerSize)) {
    if (method.IsStatic() && rules->changes.find(&method) != rules->changes.end()) {
      UseInterpreterAfterLinking(&method);
    }
  }
}

void ForgetMethodsOf(LinearAlloc* methods) {
  InForce* rules = in_force.load(std::memory_order_acquire);
  if (LIKELY(rules == nullptr)) {
    return;
  }
  auto is_freed = [&](const void* method) { return methods->Contains(const_cast<void*>(method)); };
  std::lock_guard<std::mutex> lock(rules->mutex);
  for (auto it = rules->changes.begin(); it != rules->changes.end();) {
    it = is_freed(it->first) ? rules->changes.erase(it) : std::next(it);
  }
  auto forget = [&](auto& of, auto member) {
    of.erase(std::remove_if(of.begin(), of.end(), [&](auto& entry) { return is_freed(entry.*member); }),
             of.end());
  };
  const size_t before = rules->methods.size() + rules->fields.size();
  forget(rules->methods, &RuleMethod::method);
  forget(rules->fields, &RuleField::field);
  if (before != rules->methods.size() + rules->fields.size()) {
    rules->Publish();
  }
}

}  // namespace hindsight
}  // namespace art
