// SPDX-License-Identifier: Apache-2.0

#include "inlined_copies.h"

#include <algorithm>

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

// Whether the compilers may inline this code. They inline neither large methods nor ones with a catch block.
bool IsInlinable(const CodeItemDataAccessor& code) {
  return code.InsnsSizeInCodeUnits() <= kMaxInlinedCodeUnits && code.TriesSize() == 0u;
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
        {i, rule.klass, rule.member, rule.parameters, rule.is_method, rule.reads, rule.writes});
  }
}

void InlinedCopies::Add(const DexFile& dex_file) {
  Looked& looked = looked_[&dex_file];
  looked = {dex_file.GetLocationChecksum(), {}};
  AddHierarchy(dex_file);
  std::vector<Sought> sought = sought_;
  auto is_never_inlined = [&](const Sought& one) { return one.is_method && IsNeverInlined(one, dex_file); };
  sought.erase(std::remove_if(sought.begin(), sought.end(), is_never_inlined), sought.end());
  for (size_t depth = 0u; !sought.empty() && depth != kMaxDepth; ++depth) {
    sought = Look(sought, dex_file, &looked);
    // In dex files that were compiled together with this one, they may be inlined, too.
    sought_.insert(sought_.end(), sought.begin(), sought.end());
  }
}

bool InlinedCopies::Knows(const DexFile& dex_file) const {
  auto it = looked_.find(&dex_file);
  return it != looked_.end() && it->second.checksum == dex_file.GetLocationChecksum();
}

const InlinedCopies::Contents* InlinedCopies::Find(const DexFile& dex_file, uint32_t method_index) const {
  auto looked = looked_.find(&dex_file);
  if (looked == looked_.end()) {
    return nullptr;
  }
  auto it = looked->second.methods.find(method_index);
  return it != looked->second.methods.end() ? &it->second : nullptr;
}

void InlinedCopies::AddHierarchy(const DexFile& dex_file) {
  for (ClassAccessor accessor : dex_file.GetClasses()) {
    const dex::ClassDef& definition = accessor.GetClassDef();
    std::vector<std::string>& supertypes = supertypes_[accessor.GetDescriptor()];
    supertypes.clear();
    if (definition.superclass_idx_.IsValid()) {
      supertypes.push_back(dex_file.StringByTypeIdx(definition.superclass_idx_));
    }
    const dex::TypeList* interfaces = dex_file.GetInterfacesList(definition);
    for (size_t i = 0u; interfaces != nullptr && i != interfaces->Size(); ++i) {
      supertypes.push_back(dex_file.StringByTypeIdx(interfaces->GetTypeItem(i).type_idx_));
    }
  }
}

bool InlinedCopies::HasAncestor(const std::string& klass, const std::string& ancestor) const {
  // A damaged dex file may have a class that is its own ancestor.
  std::vector<std::string> found = {klass};
  for (size_t i = 0u; i != found.size(); ++i) {
    if (found[i] == ancestor) {
      return true;
    }
    auto it = supertypes_.find(found[i]);
    if (it == supertypes_.end()) {
      continue;
    }
    for (const std::string& supertype : it->second) {
      if (std::find(found.begin(), found.end(), supertype) == found.end()) {
        found.push_back(supertype);
      }
    }
  }
  return false;
}

bool InlinedCopies::IsRelated(const std::string& a, const std::string& b) const {
  return HasAncestor(a, b) || HasAncestor(b, a);
}

bool InlinedCopies::IsNeverInlined(const Sought& sought, const DexFile& dex_file) {
  const dex::TypeId* type = dex_file.FindTypeId(sought.klass.c_str());
  const dex::ClassDef* definition =
      type != nullptr ? dex_file.FindClassDef(dex_file.GetIndexForTypeId(*type)) : nullptr;
  if (definition == nullptr) {
    return false;
  }
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
  return true;
}

InlinedCopies::Named InlinedCopies::NamedMethods(const std::vector<Sought>& sought,
                                                 const DexFile& dex_file) const {
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
          IsRelated(dex_file.GetMethodDeclaringClassDescriptor(id), one.klass)) {
        named.resize(dex_file.NumMethodIds());
        named[i] = &one;
        break;
      }
    }
  }
  return named;
}

InlinedCopies::Named InlinedCopies::NamedFields(const std::vector<Sought>& sought,
                                                const DexFile& dex_file) const {
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
          IsRelated(dex_file.GetFieldDeclaringClassDescriptor(id), one->klass)) {
        named.resize(dex_file.NumFieldIds());
        named[i] = one;
        break;
      }
    }
  }
  return named;
}

std::vector<InlinedCopies::Sought> InlinedCopies::Look(const std::vector<Sought>& sought,
                                                       const DexFile& dex_file,
                                                       Looked* looked) const {
  std::vector<Sought> inlinable;
  const Named methods = NamedMethods(sought, dex_file);
  const Named fields = NamedFields(sought, dex_file);
  if (methods.empty() && fields.empty()) {
    return inlinable;
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
      auto [it, is_new] = looked->methods.insert({method.GetIndex(), {accessed != nullptr, found->rule}});
      it->second.is_access = it->second.is_access || accessed != nullptr;
      if (is_new && IsInlinable(code)) {
        const dex::MethodId& id = dex_file.GetMethodId(method.GetIndex());
        inlinable.push_back({found->rule,
                             accessor.GetDescriptor(),
                             dex_file.GetMethodName(id),
                             dex_file.GetMethodSignature(id).ToString(),
                             /* is_method= */ true,
                             /* reads= */ false,
                             /* writes= */ false});
      }
    }
  }
  return inlinable;
}

}  // namespace hindsight
}  // namespace art
