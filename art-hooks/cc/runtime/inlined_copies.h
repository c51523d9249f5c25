// SPDX-License-Identifier: Apache-2.0
//
// Which methods' compiled code may contain what rules name: a copy of an inlined method, or an access to a field.
//
// Compiled code does not say this itself: code of an inlined method without a call or a check leaves no trace in the stack
// maps. So this looks through the dex code that the compilers had. What it finds may be too much.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_INLINED_COPIES_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_INLINED_COPIES_H_

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/macros.h"
#include "loaded_dex_files.h"
#include "rule_resolver.h"
#include "type_relations.h"

namespace art {

class DexFile;

namespace hindsight {

class InlinedCopies {
 public:
  // What a method's code contains.
  struct Contents {
    // An access to the rule's field: the method must not be compiled. Otherwise a call that may have been inlined: the
    // method must be compiled again.
    bool is_access;
    // Index of the rule.
    size_t rule;
  };

  // The methods of a dex file with contents, by their index.
  using Methods = std::unordered_map<uint32_t, Contents>;

  explicit InlinedCopies(const std::vector<Rule>& rules);

  // Looks through those of the dex files that it does not know. They stay mapped during the call. Takes long: the calling
  // thread is not runnable, so that nothing but another call waits for it.
  //
  // Code that may contain code of another of these dex files is among them, or was looked through before: ahead of time,
  // dex files are compiled together with others of the same class loader and against the boot class path, and the JIT does
  // not inline methods of rules while they are on.
  void Add(const std::vector<LoadedDexFiles>& loaded) NO_THREAD_SAFETY_ANALYSIS;

  // The methods of the dex file that have contents; null: the dex file was not looked through.
  std::shared_ptr<const Methods> Find(const DexFile& dex_file) const;

  // The class loader with this owner is about to be freed. Does not wait for Add().
  void Forget(const void* owner);

 private:
  // Calls of these methods, or accesses to this field, are looked for.
  struct Sought {
    size_t rule;
    std::string klass;
    std::string name;
    // The beginning of the signature.
    std::string parameters;
    bool is_method;
    bool reads;
    bool writes;
    // Of the class loader whose dex file has the method; null for those that rules name.
    const void* owner;
  };

  // A dex file that was looked through.
  struct Looked {
    const void* owner;
    uint32_t checksum;
    std::shared_ptr<const Methods> methods;
  };

  // A dex file that is looked through.
  struct Looking {
    const void* owner;
    const DexFile* dex_file;
    std::shared_ptr<Methods> methods;
  };

  // For each member that a dex file names, by its index: what it is sought as, or null.
  using Named = std::vector<const Sought*>;

  void ForgetOwned();
  std::vector<Looking> Unknown(const std::vector<LoadedDexFiles>& loaded);
  const TypeRelations::Types& RelatedTo(const Sought& sought);
  bool MayBe(const Sought& sought, const char* klass);
  // Whether one of the dex files has this method, and it is too large to be inlined.
  static bool IsNeverInlined(const Sought& method, const std::vector<Looking>& dex_files);
  // The part of `sought` that the dex file names.
  Named NamedMethods(const std::vector<Sought>& sought, const DexFile& dex_file);
  Named NamedFields(const std::vector<Sought>& sought, const DexFile& dex_file);
  // Looks through all methods. Adds those found whose callers must be looked for, too, to `inlinable`.
  void Look(const std::vector<Sought>& sought, const Looking& looking, std::vector<Sought>* inlinable);

  // Held while dex files are looked through. Only threads that are not runnable take it. Protects the first five.
  std::mutex looking_;
  std::vector<Sought> sought_;
  TypeRelations relations_;
  // Results of RelatedTo(), while dex files are looked through.
  std::unordered_map<std::string, TypeRelations::Types> related_;
  // The sum of their sizes.
  size_t related_types_ = 0u;
  bool has_warned_ = false;

  // Protects the rest. A thread that holds it passes no safepoint.
  mutable std::mutex results_;
  std::unordered_map<const DexFile*, Looked> looked_;
  // Owners that Add() must forget.
  std::vector<const void*> freed_;

  DISALLOW_COPY_AND_ASSIGN(InlinedCopies);
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_INLINED_COPIES_H_
