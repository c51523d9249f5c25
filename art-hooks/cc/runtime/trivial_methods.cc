// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/trivial_methods.h"

#include <string.h>

#include "art_method-inl.h"
#include "dex/class_accessor-inl.h"
#include "dex/code_item_accessors-inl.h"
#include "dex/dex_file-inl.h"
#include "dex/dex_instruction-inl.h"
#include "dex/modifiers.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/trace_point_form.h"

namespace art {
namespace hindsight {

namespace {

constexpr bool IsBetween(Instruction::Code opcode, Instruction::Code first, Instruction::Code last) {
  return opcode >= first && opcode <= last;
}

bool IsReturn(Instruction::Code opcode) {
#if HINDSIGHT_ART < 14
  if (opcode == Instruction::RETURN_VOID_NO_BARRIER) {
    return true;
  }
#endif
  return IsBetween(opcode, Instruction::RETURN_VOID, Instruction::RETURN_OBJECT);
}

// Whether an instruction moves, computes, compares, casts, or accesses an array or a field of an object, and goes on with the
// next one. ART quickens a cast that cannot fail to two NOPs.
bool IsPlain(Instruction::Code opcode) {
#if HINDSIGHT_ART < 14
  if (IsBetween(opcode, Instruction::IGET_QUICK, Instruction::IPUT_OBJECT_QUICK) ||
      IsBetween(opcode, Instruction::IPUT_BOOLEAN_QUICK, Instruction::IGET_SHORT_QUICK)) {
    return true;
  }
#endif
  return IsBetween(opcode, Instruction::NOP, Instruction::MOVE_RESULT_OBJECT) ||
         IsBetween(opcode, Instruction::CONST_4, Instruction::CONST_WIDE_HIGH16) ||
         opcode == Instruction::CHECK_CAST ||
         opcode == Instruction::ARRAY_LENGTH ||
         IsBetween(opcode, Instruction::CMPL_FLOAT, Instruction::CMP_LONG) ||
         IsBetween(opcode, Instruction::AGET, Instruction::IPUT_SHORT) ||
         IsBetween(opcode, Instruction::NEG_INT, Instruction::USHR_INT_LIT8);
}

bool IsStaticField(Instruction::Code opcode) {
  return IsBetween(opcode, Instruction::SGET, Instruction::SPUT_SHORT);
}

bool IsCall(Instruction::Code opcode) {
#if HINDSIGHT_ART < 14
  if (opcode == Instruction::INVOKE_VIRTUAL_QUICK ||
      opcode == Instruction::INVOKE_VIRTUAL_RANGE_QUICK) {
    return true;
  }
#endif
  return IsBetween(opcode, Instruction::INVOKE_VIRTUAL, Instruction::INVOKE_INTERFACE) ||
         IsBetween(opcode, Instruction::INVOKE_VIRTUAL_RANGE, Instruction::INVOKE_INTERFACE_RANGE);
}

// Whether `call` is one of Object's constructor. ART does not quicken such calls.
bool CallsObjectConstructor(const DexFile& dex_file, const Instruction& call) {
  uint32_t index;
  if (call.Opcode() == Instruction::INVOKE_DIRECT) {
    index = call.VRegB_35c();
  } else if (call.Opcode() == Instruction::INVOKE_DIRECT_RANGE) {
    index = call.VRegB_3rc();
  } else {
    return false;
  }
  if (index >= dex_file.NumMethodIds()) {
    return false;
  }
  const dex::MethodId& called = dex_file.GetMethodId(index);
  return strcmp(dex_file.StringByTypeIdx(called.class_idx_), "Ljava/lang/Object;") == 0 &&
         strcmp(dex_file.GetMethodName(called), "<init>") == 0;
}

// Whether `access` uses a static field of the class that declares the method, which is initialized, or about to be, when the
// method runs.
bool IsOwnField(const DexFile& dex_file, uint32_t method_index, const Instruction& access) {
  const uint32_t field = access.VRegB_21c();
  return field < dex_file.NumFieldIds() &&
         dex_file.GetFieldId(field).class_idx_ == dex_file.GetMethodId(method_index).class_idx_;
}

// The instructions of a method that is short enough.
class Instructions {
 public:
  explicit Instructions(const CodeItemDataAccessor& code)
      : code_(code.Insns()), size_(code.InsnsSizeInCodeUnits()) {}

  // The instruction at `pc`, or null if it is not whole.
  const Instruction* At(uint32_t pc) const {
    if (pc >= size_) {
      return nullptr;
    }
    const Instruction* instruction = Instruction::At(code_ + pc);
    // A table of a switch or an array, which is no instruction.
    if (instruction->Opcode() == Instruction::NOP && code_[pc] != Instruction::NOP) {
      return nullptr;
    }
    return instruction->SizeInCodeUnits() <= size_ - pc ? instruction : nullptr;
  }

  // Whether the code from `pc` on reaches a return, and has no branch before.
  bool ReturnsFrom(uint32_t pc) const {
    for (const Instruction* next = At(pc); next != nullptr; next = At(pc)) {
      if (IsReturn(next->Opcode())) {
        return true;
      }
      if (next->IsBranch() || !next->CanFlowThrough()) {
        return false;
      }
      pc += next->SizeInCodeUnits();
    }
    return false;
  }

  // Whether the branch at `pc` makes no loop. Compilers let several returns share one, and jump back to it.
  bool IsHarmless(const Instruction& branch, uint32_t pc) const {
    const int32_t offset = branch.GetTargetOffset();
    return offset > 0 ||
           (offset < 0 && branch.IsUnconditional() && ReturnsFrom(pc + static_cast<uint32_t>(offset)));
  }

 private:
  const uint16_t* const code_;
  const uint32_t size_;
};

}  // namespace

bool IsTrivialCode(const DexFile& dex_file,
                   uint32_t method_index,
                   uint32_t access_flags,
                   const CodeItemDataAccessor& code) {
  if (!code.HasCodeItem() ||
      code.InsnsSizeInCodeUnits() > kMaxTrivialCodeUnits ||
      code.TriesSize() != 0u ||
      method_index >= dex_file.NumMethodIds()) {
    return false;
  }
  const Instructions instructions(code);
  size_t calls = 0u;
  bool branches = false;
  for (uint32_t pc = 0u; pc != code.InsnsSizeInCodeUnits();) {
    const Instruction* instruction = instructions.At(pc);
    if (instruction == nullptr) {
      return false;
    }
    const Instruction::Code opcode = instruction->Opcode();
    if (instruction->IsBranch()) {
      if (!instructions.IsHarmless(*instruction, pc)) {
        return false;
      }
      branches = true;
    } else if (IsCall(opcode)) {
      calls += CallsObjectConstructor(dex_file, *instruction) ? 0u : 1u;
    } else if (!IsPlain(opcode) && !IsReturn(opcode) &&
               !(IsStaticField(opcode) && IsOwnField(dex_file, method_index, *instruction))) {
      return false;
    }
    pc += instruction->SizeInCodeUnits();
  }
  return calls == 0u || (calls == 1u && !branches && (access_flags & kAccBridge) != 0u);
}

bool IsLeftOut(ArtMethod* method) {
  if (!LeavesOutTrivialMethods() ||
      method->IsRuntimeMethod() ||
      method->IsNative() ||
      !method->IsInvokable() ||
      method->IsProxyMethod()) {
    return false;
  }
  const CodeItemDataAccessor code = method->DexInstructionData();
  return code.HasCodeItem() &&
         IsTrivialCode(
             *method->GetDexFile(), method->GetDexMethodIndex(), method->GetAccessFlags(), code);
}

bool IsLeftOut(const DexFile& dex_file, uint32_t method_index) {
  if (!LeavesOutTrivialMethods() || method_index >= dex_file.NumMethodIds()) {
    return false;
  }
  const dex::ClassDef* declaring = dex_file.FindClassDef(dex_file.GetMethodId(method_index).class_idx_);
  if (declaring == nullptr) {
    return false;
  }
  const ClassAccessor accessor(dex_file, *declaring);
  for (const ClassAccessor::Method& method : accessor.GetMethods()) {
    if (method.GetIndex() == method_index) {
      return method.GetCodeItemOffset() != 0u &&
             IsTrivialCode(dex_file,
                           method_index,
                           method.GetAccessFlags(),
                           CodeItemDataAccessor(dex_file, method.GetCodeItem()));
    }
  }
  return false;
}

}  // namespace hindsight
}  // namespace art
