// SPDX-License-Identifier: Apache-2.0

#include "inlined_copies.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "android-base/logging.h"
#include "dex/class_accessor-inl.h"
#include "dex/code_item_accessors-inl.h"
#include "dex/dex_file-inl.h"
#include "dex/dex_instruction-inl.h"
#include "dex/dex_instruction_utils.h"
#include "hindsight/compat.h"
#include "oat_file.h"
#if HINDSIGHT_ART < 14
#include "quicken_info.h"
#endif

namespace art {
namespace hindsight {

namespace {

// CompilerOptions::kDefaultInlineMaxCodeUnits.
constexpr size_t kMaxInlinedCodeUnits = 32u;

// Inlined methods in inlined methods are looked for up to this depth. The inliner's budget ends before.
constexpr size_t kMaxDepth = 16u;

// No more methods are sought: a rule for a method that very much calls, such as Object's constructor, must not fill the
// memory.
constexpr size_t kMaxSought = 20000u;

// Bounds the memory for results of RelatedTo() at about 40 MB, while dex files are looked through.
constexpr size_t kMaxRelatedTypes = 1000000u;

// Whether the compilers may inline this code. They inline no large methods, and before Android 14 none with a catch block.
bool IsInlinable(const CodeItemDataAccessor& code) {
  return code.InsnsSizeInCodeUnits() <= kMaxInlinedCodeUnits &&
         (HINDSIGHT_ART >= 14 || code.TriesSize() == 0u);
}

constexpr uint32_t kNoIndex = 0xffffffffu;

// A member that an instruction uses.
struct Use {
  // Index of the method that it calls.
  uint32_t method = kNoIndex;
  // Index of the field that it accesses.
  uint32_t field = kNoIndex;
  bool writes = false;
};

// The members that the instructions of a method use. An instruction that ART has quickened has its index in a table.
class Uses {
 public:
#if HINDSIGHT_ART < 14
  Uses(const DexFile& dex_file, uint32_t method_index)
      : quickened_(dex_file.GetOatDexFile() != nullptr
                       ? dex_file.GetOatDexFile()->GetQuickenedInfoOf(dex_file, method_index)
                       : ArrayRef<const uint8_t>()) {}
#else
  Uses(const DexFile&, uint32_t) {}
#endif

  Use Of(const Instruction& instruction) {
    const Instruction::Code opcode = instruction.Opcode();
    Use use;
#if HINDSIGHT_ART < 14
    if (QuickenInfoTable::NeedsIndexForInstruction(&instruction)) {
      const uint32_t index = number_++;
      if (quickened_.empty() || !instruction.IsQuickened()) {
        return use;
      }
      const uint32_t member = QuickenInfoTable(quickened_).GetData(index);
      if (IsInstructionQuickInvoke(opcode)) {
        use.method = member;
      } else if (IsInstructionIGetQuickOrIPutQuick(opcode)) {
        use.field = member;
        use.writes = opcode >= Instruction::IPUT_QUICK && opcode <= Instruction::IPUT_OBJECT_QUICK;
        use.writes = use.writes || (opcode >= Instruction::IPUT_BOOLEAN_QUICK &&
                                    opcode <= Instruction::IPUT_SHORT_QUICK);
      }
      return use;
    }
#endif
    if (opcode >= Instruction::INVOKE_VIRTUAL && opcode <= Instruction::INVOKE_INTERFACE) {
      use.method = instruction.VRegB_35c();
    } else if (opcode >= Instruction::INVOKE_VIRTUAL_RANGE &&
               opcode <= Instruction::INVOKE_INTERFACE_RANGE) {
      use.method = instruction.VRegB_3rc();
    } else if (IsInstructionIGetOrIPut(opcode)) {
      use.field = instruction.VRegC_22c();
      use.writes = IsInstructionIPut(opcode);
    } else if (IsInstructionSGetOrSPut(opcode)) {
      use.field = instruction.VRegB_21c();
      use.writes = IsInstructionSPut(opcode);
    }
    return use;
  }

 private:
#if HINDSIGHT_ART < 14
  const ArrayRef<const uint8_t> quickened_;
  uint32_t number_ = 0u;
#endif
};

template <typename Named, typename Index>
auto* At(const Named& named, Index index) {
  return index < named.size() ? named[index] : nullptr;
}

}  // namespace

InlinedCopies::InlinedCopies(const std::vector<Rule>& rules) {
  for (size_t i = 0u; i != rules.size(); ++i) {
    const Rule& rule = rules[i];
    sought_.push_back(
        {i, rule.klass, rule.member, rule.parameters, rule.is_method, rule.reads, rule.writes, nullptr});
  }
}

void InlinedCopies::Add(const std::vector<LoadedDexFiles>& loaded) {
  std::lock_guard<std::mutex> lock(looking_);
  ForgetOwned();
  std::vector<Looking> looking = Unknown(loaded);
  std::vector<Sought> sought = sought_;
  auto is_never_inlined = [&](const Sought& one) { return one.is_method && IsNeverInlined(one, looking); };
  sought.erase(std::remove_if(sought.begin(), sought.end(), is_never_inlined), sought.end());
  // What was found in one dex file is looked for in all of them.
  for (size_t depth = 0u; !sought.empty() && depth != kMaxDepth; ++depth) {
    std::vector<Sought> inlinable;
    for (const Looking& one : looking) {
      Look(sought, one, &inlinable);
    }
    if (sought_.size() + inlinable.size() > kMaxSought) {
      if (!has_warned_) {
        LOG(WARNING) << "hindsight: rules: too much code contains their methods; events may be missing";
      }
      has_warned_ = true;
      break;
    }
    sought_.insert(sought_.end(), inlinable.begin(), inlinable.end());
    sought = std::move(inlinable);
  }
  related_.clear();
  related_types_ = 0u;
  std::lock_guard<std::mutex> results(results_);
  for (Looking& one : looking) {
    looked_[one.dex_file] = {one.owner, one.dex_file->GetLocationChecksum(), std::move(one.methods)};
  }
}

std::shared_ptr<const InlinedCopies::Methods> InlinedCopies::Find(const DexFile& dex_file) const {
  std::lock_guard<std::mutex> lock(results_);
  auto it = looked_.find(&dex_file);
  // Another dex file may have been at its address.
  const bool is_known = it != looked_.end() && it->second.checksum == dex_file.GetLocationChecksum();
  return is_known ? it->second.methods : nullptr;
}

void InlinedCopies::Forget(const void* owner) {
  std::lock_guard<std::mutex> lock(results_);
  bool is_owner = false;
  for (auto it = looked_.begin(); it != looked_.end();) {
    const bool is_freed = it->second.owner == owner;
    is_owner = is_owner || is_freed;
    it = is_freed ? looked_.erase(it) : std::next(it);
  }
  if (is_owner) {
    freed_.push_back(owner);
  }
}

void InlinedCopies::ForgetOwned() {
  std::vector<const void*> freed;
  {
    std::lock_guard<std::mutex> lock(results_);
    freed.swap(freed_);
  }
  for (const void* owner : freed) {
    relations_.Forget(owner);
    auto is_owned = [&](const Sought& one) { return one.owner == owner; };
    sought_.erase(std::remove_if(sought_.begin(), sought_.end(), is_owned), sought_.end());
  }
}

std::vector<InlinedCopies::Looking> InlinedCopies::Unknown(const std::vector<LoadedDexFiles>& loaded) {
  std::vector<Looking> unknown;
  for (const LoadedDexFiles& of : loaded) {
    std::vector<const DexFile*> dex_files;
    for (const DexFile* dex_file : of.dex_files) {
      if (Find(*dex_file) == nullptr) {
        dex_files.push_back(dex_file);
        unknown.push_back({of.owner, dex_file, std::make_shared<Methods>()});
      }
    }
    if (!dex_files.empty()) {
      relations_.Add(of.owner, dex_files);
    }
  }
  return unknown;
}

const TypeRelations::Types& InlinedCopies::RelatedTo(const Sought& sought) {
  auto it = related_.find(sought.klass);
  if (it == related_.end()) {
    TypeRelations::Types types = relations_.RelatedTo(sought.klass);
    related_types_ += types.size();
    if (related_types_ > kMaxRelatedTypes) {
      related_.clear();
      related_types_ = types.size();
    }
    it = related_.emplace(sought.klass, std::move(types)).first;
  }
  return it->second;
}

bool InlinedCopies::MayBe(const Sought& sought, const char* klass) {
  if (sought.klass == klass) {
    return true;
  }
  // Constructors are not inherited.
  return sought.name != "<init>" && RelatedTo(sought).count(TypeRelations::Hash(klass)) != 0u;
}

bool InlinedCopies::IsNeverInlined(const Sought& sought, const std::vector<Looking>& dex_files) {
  bool is_known = false;
  for (const Looking& looking : dex_files) {
    const DexFile& dex_file = *looking.dex_file;
    const dex::TypeId* type = dex_file.FindTypeId(sought.klass.c_str());
    const dex::ClassDef* definition =
        type != nullptr ? dex_file.FindClassDef(dex_file.GetIndexForTypeId(*type)) : nullptr;
    if (definition == nullptr) {
      continue;
    }
    is_known = true;
    ClassAccessor accessor(dex_file, *definition);
    for (const ClassAccessor::Method& method : accessor.GetMethods()) {
      const dex::MethodId& id = dex_file.GetMethodId(method.GetIndex());
      const std::string signature = dex_file.GetMethodSignature(id).ToString();
      const bool is_same = sought.name == dex_file.GetMethodName(id) &&
                           signature.compare(0u, sought.parameters.size(), sought.parameters) == 0;
      if (is_same && method.GetCodeItem() != nullptr && IsInlinable(method.GetInstructionsAndData())) {
        return false;
      }
    }
  }
  return is_known;
}

InlinedCopies::Named InlinedCopies::NamedMethods(const std::vector<Sought>& sought,
                                                 const DexFile& dex_file) {
  std::unordered_multimap<std::string_view, const Sought*> by_name;
  for (const Sought& one : sought) {
    if (one.is_method) {
      by_name.emplace(one.name, &one);
    }
  }
  Named named;
  for (size_t i = 0u; !by_name.empty() && i != dex_file.NumMethodIds(); ++i) {
    const dex::MethodId& id = dex_file.GetMethodId(i);
    auto [begin, end] = by_name.equal_range(dex_file.GetMethodName(id));
    for (auto it = begin; it != end; ++it) {
      const Sought& one = *it->second;
      const std::string signature = dex_file.GetMethodSignature(id).ToString();
      if (signature.compare(0u, one.parameters.size(), one.parameters) == 0 &&
          MayBe(one, dex_file.GetMethodDeclaringClassDescriptor(id))) {
        named.resize(dex_file.NumMethodIds());
        named[i] = &one;
        break;
      }
    }
  }
  return named;
}

InlinedCopies::Named InlinedCopies::NamedFields(const std::vector<Sought>& sought,
                                                const DexFile& dex_file) {
  std::vector<const Sought*> fields;
  for (const Sought& one : sought) {
    if (!one.is_method) {
      fields.push_back(&one);
    }
  }
  Named named;
  for (size_t i = 0u; !fields.empty() && i != dex_file.NumFieldIds(); ++i) {
    const dex::FieldId& id = dex_file.GetFieldId(i);
    for (const Sought* one : fields) {
      if (one->name == dex_file.GetFieldName(id) &&
          MayBe(*one, dex_file.GetFieldDeclaringClassDescriptor(id))) {
        named.resize(dex_file.NumFieldIds());
        named[i] = one;
        break;
      }
    }
  }
  return named;
}

void InlinedCopies::Look(const std::vector<Sought>& sought,
                         const Looking& looking,
                         std::vector<Sought>* inlinable) {
  const DexFile& dex_file = *looking.dex_file;
  const Named methods = NamedMethods(sought, dex_file);
  const Named fields = NamedFields(sought, dex_file);
  if (methods.empty() && fields.empty()) {
    return;
  }
  for (ClassAccessor accessor : dex_file.GetClasses()) {
    for (const ClassAccessor::Method& method : accessor.GetMethods()) {
      if (method.GetCodeItem() == nullptr) {
        continue;
      }
      const CodeItemDataAccessor code = method.GetInstructionsAndData();
      Uses uses(dex_file, method.GetIndex());
      const Sought* called = nullptr;
      const Sought* accessed = nullptr;
      // The code of a class that was never loaded has not been verified: an instruction may not fit in it.
      SafeDexInstructionIterator next(code.begin(), code.end());
      while (next < code.end()) {
        const Instruction& instruction = next.Inst();
        ++next;
        if (next.IsErrorState()) {
          break;
        }
        const Use use = uses.Of(instruction);
        const Sought* callee = At(methods, use.method);
        const Sought* field = At(fields, use.field);
        called = callee != nullptr ? callee : called;
        if (field != nullptr && (use.writes ? field->writes : field->reads)) {
          accessed = field;
        }
      }
      const Sought* found = accessed != nullptr ? accessed : called;
      if (found == nullptr) {
        continue;
      }
      auto [it, is_new] = looking.methods->insert({method.GetIndex(), {accessed != nullptr, found->rule}});
      it->second.is_access = it->second.is_access || accessed != nullptr;
      if (is_new && IsInlinable(code)) {
        const dex::MethodId& id = dex_file.GetMethodId(method.GetIndex());
        inlinable->push_back({found->rule,
                              accessor.GetDescriptor(),
                              dex_file.GetMethodName(id),
                              dex_file.GetMethodSignature(id).ToString(),
                              /* is_method= */ true,
                              /* reads= */ false,
                              /* writes= */ false,
                              looking.owner});
      }
    }
  }
}

}  // namespace hindsight
}  // namespace art
