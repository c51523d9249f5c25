// SPDX-License-Identifier: Apache-2.0
//
// Builds graphs by hand, inserts trace points, and lowers them for each instruction set. Checks the nodes, the machine
// code and, for this machine's instruction set, the events that the code records when it runs. No Runtime is needed:
// the code gets a made-up Thread.
//
// HINDSIGHT_TRACE_POINTS sets the form of trace points, and a process reads it once: `cargo xtask verify unit` runs
// this program for each form.

#include <asm/prctl.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "base/arena_allocator.h"
#include "base/malloc_arena_pool.h"
#include "base/scoped_arena_allocator.h"
#include "dex/standard_dex_file.h"
#include "driver/compiler_options.h"
#include "gtest/gtest.h"
#include "hindsight/compat.h"
#include "hindsight/compiler/trace_point_insertion.h"
#include "hindsight/runtime/event_numbers.h"
#include "hindsight/runtime/oat_key.h"
#include "hindsight/runtime/slot_words.h"
#include "hindsight/runtime/thread_offsets.h"
#include "hindsight/runtime/trace_point_form.h"
#include "hindsight/runtime/trace_stubs.h"
#include "hindsight/runtime/tracing_gate.h"
#include "oat.h"
#include "optimizing/code_generator.h"
#include "optimizing/graph_checker.h"
#include "optimizing/nodes.h"
#include "optimizing/prepare_for_register_allocation.h"
#include "optimizing/register_allocator.h"
#include "optimizing/ssa_liveness_analysis.h"
#include "thread.h"

namespace art {

// ART's classes have friends of these names, for ART's own tests.

class OptimizingUnitTestHelper {
 public:
  static StandardDexFile* MakeDexFile(const std::vector<uint8_t>& data) {
#if HINDSIGHT_ART >= 14
    return new StandardDexFile(
        data.data(), data.size(), "made up", /*location_checksum=*/ 0u, /*oat_dex_file=*/ nullptr,
        std::make_shared<MemoryDexFileContainer>(data.data(), data.size()));
#else
    return new StandardDexFile(
        data.data(), data.size(), "made up", /*location_checksum=*/ 0u, /*oat_dex_file=*/ nullptr,
        /*container=*/ nullptr);
#endif
  }
};

#if HINDSIGHT_ART >= 14
#define HINDSIGHT_TEST_FRIEND CommonCompilerTestImpl
#else
#define HINDSIGHT_TEST_FRIEND CommonCompilerTest
#endif

class HINDSIGHT_TEST_FRIEND {
 public:
  static void SetTarget(CompilerOptions* options, InstructionSet isa) {
    std::string error;
    options->instruction_set_ = isa;
    options->instruction_set_features_ =
        InstructionSetFeatures::FromVariant(isa, "default", &error);
    CHECK(options->instruction_set_features_ != nullptr) << error;
  }
};

namespace hindsight {
namespace {

const InstructionSet kIsas[] = {
    InstructionSet::kX86_64, InstructionSet::kArm64, InstructionSet::kThumb2};

// Code generators of Android 11 ask the Runtime whether it has a JIT. A Runtime of zeros has none.
class RuntimeWithoutJit {
#if HINDSIGHT_ART == 11
 public:
  RuntimeWithoutJit()
      : instance_(static_cast<void**>(dlsym(RTLD_DEFAULT, "_ZN3art7Runtime9instance_E"))) {
    CHECK(instance_ != nullptr);
    *instance_ = zeros_;
  }
  ~RuntimeWithoutJit() { *instance_ = nullptr; }

 private:
  alignas(16) uint8_t zeros_[8192] = {};
  void** const instance_;
#endif
};

class Code final : public CodeAllocator {
 public:
  uint8_t* Allocate(size_t size) override {
    bytes.resize(size);
    return bytes.data();
  }
  ArrayRef<const uint8_t> GetMemory() const override { return ArrayRef<const uint8_t>(bytes); }
  std::vector<uint8_t> bytes;
};

// A method's graph.
class Method {
 public:
  explicit Method(InstructionSet isa, bool osr = false)
      : allocator_(&pool_), arena_stack_(&pool_), isa_(isa) {
    dex_data_.resize(sizeof(StandardDexFile::Header));
    dex_file_.reset(OptimizingUnitTestHelper::MakeDexFile(dex_data_));
#if HINDSIGHT_ART >= 14
    graph = new (&allocator_) HGraph(
        &allocator_, &arena_stack_, /*handles=*/ nullptr, *dex_file_, /*method_idx=*/ -1, isa,
        kInvalidInvokeType, /*dead_reference_safe=*/ false, /*debuggable=*/ false,
        osr ? CompilationKind::kOsr : CompilationKind::kOptimized);
#else
    graph = new (&allocator_) HGraph(
        &allocator_, &arena_stack_, *dex_file_, /*method_idx=*/ -1, isa,
        kInvalidInvokeType, /*dead_reference_safe=*/ false, /*debuggable=*/ false, osr);
#endif
    entry = Block();
    exit = Block();
    graph->SetEntryBlock(entry);
    graph->SetExitBlock(exit);
    exit->AddInstruction(new (&allocator_) HExit());
    parameter = new (&allocator_) HParameterValue(
        *dex_file_, dex::TypeIndex(0), /*index=*/ 0, DataType::Type::kInt32);
    entry->AddInstruction(parameter);
  }

  HBasicBlock* Block() {
    HBasicBlock* block = new (&allocator_) HBasicBlock(graph);
    graph->AddBlock(block);
    return block;
  }

  template <typename T, typename... Args>
  T* Add(HBasicBlock* block, Args&&... args) {
    T* instruction = new (&allocator_) T(std::forward<Args>(args)...);
    block->AddInstruction(instruction);
    return instruction;
  }

  // A suspend check across which at most the parameter is live.
  void AddSuspendCheck(HBasicBlock* block) {
    HSuspendCheck* check = Add<HSuspendCheck>(block, /*dex_pc=*/ 0u);
    HEnvironment* environment = new (&allocator_) HEnvironment(
        &allocator_, /*number_of_vregs=*/ 0u, /*method=*/ nullptr, /*dex_pc=*/ 0u, check);
    check->SetRawEnvironment(environment);
  }

  void Goto(HBasicBlock* from, HBasicBlock* to) {
    Add<HGoto>(from);
    from->AddSuccessor(to);
  }

  void Return(HBasicBlock* block, HInstruction* value) {
    Add<HReturn>(block, value);
    block->AddSuccessor(exit);
  }

  // x < 10 ? x + 1 : x - 1, with a return in each branch.
  void TwoReturns() {
    AddSuspendCheck(entry);
    HBasicBlock* test = Block();
    HBasicBlock* small = Block();
    HBasicBlock* large = Block();
    Goto(entry, test);
    HInstruction* ten = graph->GetIntConstant(10);
    HInstruction* one = graph->GetIntConstant(1);
    Add<HIf>(test, Add<HLessThan>(test, parameter, ten));
    test->AddSuccessor(small);
    test->AddSuccessor(large);
    Return(small, Add<HAdd>(small, DataType::Type::kInt32, parameter, one));
    Return(large, Add<HSub>(large, DataType::Type::kInt32, parameter, one));
  }

  // do { x = x + 3; } while (x < 10); return x: the loop has a suspend check, so the method is no leaf.
  void Loop() {
    AddSuspendCheck(entry);
    HBasicBlock* header = Block();
    HBasicBlock* again = Block();
    HBasicBlock* end = Block();
    // The graph needs a block between the entry block and a loop.
    HBasicBlock* before = Block();
    Goto(entry, before);
    Goto(before, header);
    HPhi* x = new (&allocator_) HPhi(&allocator_, /*reg_number=*/ 0u, /*number_of_inputs=*/ 0u,
                                     DataType::Type::kInt32);
    header->AddPhi(x);
    AddSuspendCheck(header);
    HInstruction* sum = Add<HAdd>(header, DataType::Type::kInt32, x, graph->GetIntConstant(3));
    Add<HIf>(header, Add<HLessThan>(header, sum, graph->GetIntConstant(10)));
    header->AddSuccessor(again);
    header->AddSuccessor(end);
    Goto(again, header);
    Return(end, sum);
    x->AddInput(parameter);
    x->AddInput(sum);
  }

  // if (x < 10) return x + 1; throw exception: throwing is a call on the main path, so every release has a suspend
  // check at the entry.
  void ReturnOrThrow() {
    // A number in place of an exception, which would need a class; it is never thrown.
    HInstruction* exception = Add<HParameterValue>(
        entry, *dex_file_, dex::TypeIndex(0), /*index=*/ 1, DataType::Type::kInt32);
    AddSuspendCheck(entry);
    HBasicBlock* test = Block();
    HBasicBlock* small = Block();
    HBasicBlock* large = Block();
    Goto(entry, test);
    HInstruction* one = graph->GetIntConstant(1);
    Add<HIf>(test, Add<HLessThan>(test, parameter, graph->GetIntConstant(10)));
    test->AddSuccessor(small);
    test->AddSuccessor(large);
    Return(small, Add<HAdd>(small, DataType::Type::kInt32, parameter, one));
    HThrow* thrown = Add<HThrow>(large, exception, /*dex_pc=*/ 0u);
    thrown->SetRawEnvironment(new (&allocator_) HEnvironment(
        &allocator_, /*number_of_vregs=*/ 0u, /*method=*/ nullptr, /*dex_pc=*/ 0u, thrown));
    large->AddSuccessor(exit);
  }

  // Never returns.
  void Forever() {
    AddSuspendCheck(entry);
    HBasicBlock* header = Block();
    HBasicBlock* again = Block();
    Goto(entry, header);
    AddSuspendCheck(header);
    Goto(header, again);
    Goto(again, header);
  }

  void Insert() {
    graph->BuildDominatorTree();
    ASSERT_EQ(graph->AnalyzeLoops(), kAnalysisSuccess);
    for (HBasicBlock* block : graph->GetReversePostOrder()) {
      if (block->IsLoopHeader()) {
        block->GetLoopInformation()->SetSuspendCheck(
            block->GetFirstInstruction()->AsSuspendCheck());
      }
    }
    // Not before: constants would be added behind the end of the entry block.
    TracePointInsertion(graph).Run();
    GraphChecker checker(graph);
#if HINDSIGHT_ART == 11
    // The graph's made-up references have no classes.
    checker.SetRefTypeInfoCheckEnabled(false);
#endif
    checker.Run();
    for (const std::string& error : checker.GetErrors()) {
      ADD_FAILURE() << error;
    }
  }

  // The machine code, after Insert().
  std::vector<uint8_t> Lower() {
    [[maybe_unused]] RuntimeWithoutJit runtime;
    HINDSIGHT_TEST_FRIEND::SetTarget(&options_, isa_);
    codegen = CodeGenerator::Create(graph, options_);
    CHECK(codegen != nullptr);
    {
      ScopedArenaAllocator local(&arena_stack_);
      PrepareForRegisterAllocation(graph, options_).Run();
      SsaLivenessAnalysis liveness(graph, codegen.get(), &local);
      liveness.Analyze();
      RegisterAllocator::Create(&local, codegen.get(), liveness)->AllocateRegisters();
    }
    Code code;
    codegen->Compile(&code);
    return code.bytes;
  }

  size_t Count(HInstruction::InstructionKind kind) {
    size_t count = 0u;
    for (HBasicBlock* block : graph->GetReversePostOrder()) {
      for (HInstructionIterator it(block->GetInstructions()); !it.Done(); it.Advance()) {
        count += it.Current()->GetKind() == kind ? 1u : 0u;
      }
    }
    return count;
  }

 private:
  MallocArenaPool pool_;
  ArenaAllocator allocator_;
  ArenaStack arena_stack_;
  const InstructionSet isa_;
  std::vector<uint8_t> dex_data_;
  std::unique_ptr<StandardDexFile> dex_file_;
  CompilerOptions options_;

 public:
  HGraph* graph;
  HBasicBlock* entry;
  HBasicBlock* exit;
  HInstruction* parameter;
  std::unique_ptr<CodeGenerator> codegen;
};

bool HasTracePointsHere() { return GetTracePointForm(InstructionSet::kX86_64) != TracePointForm::kNone; }
bool IsShared() { return GetTracePointForm(InstructionSet::kX86_64) == TracePointForm::kShared; }
size_t OneIfTraced() { return HasTracePointsHere() ? 1u : 0u; }

// --- The nodes.

TEST(TracePointsTest, EntryIsBeforeTheSuspendCheckAndExitsAreBeforeReturns) {
  for (InstructionSet isa : kIsas) {
    Method method(isa);
    method.TwoReturns();
    method.Insert();
    ASSERT_EQ(method.Count(HInstruction::kTraceStart), OneIfTraced());
    ASSERT_EQ(method.Count(HInstruction::kTraceEnd), 2u * OneIfTraced());
    if (!HasTracePointsHere()) {
      continue;
    }
    HInstruction* go = method.entry->GetLastInstruction();
    ASSERT_TRUE(go->IsGoto());
    ASSERT_TRUE(go->GetPrevious()->IsSuspendCheck());
    HInstruction* start = go->GetPrevious()->GetPrevious();
    ASSERT_TRUE(start->IsTraceStart());
    EXPECT_EQ(start->InputAt(0), method.graph->GetCurrentMethod());
    EXPECT_EQ(start->AsTraceStart()->SharesSuspendCheck(), IsShared());
    for (HBasicBlock* block : method.exit->GetPredecessors()) {
      ASSERT_TRUE(block->GetLastInstruction()->IsReturn());
      EXPECT_TRUE(block->GetLastInstruction()->GetPrevious()->IsTraceEnd());
    }
  }
}

TEST(TracePointsTest, AMethodThatNeverReturnsHasAnEntryOnly) {
  Method method(InstructionSet::kX86_64);
  method.Forever();
  method.Insert();
  EXPECT_EQ(method.Count(HInstruction::kTraceStart), OneIfTraced());
  EXPECT_EQ(method.Count(HInstruction::kTraceEnd), 0u);
}

TEST(TracePointsTest, OnStackReplacementRecordsNoEntry) {
  Method method(InstructionSet::kX86_64, /*osr=*/ true);
  method.Loop();
  method.Insert();
  EXPECT_EQ(method.Count(HInstruction::kTraceStart), 0u);
  EXPECT_EQ(method.Count(HInstruction::kTraceEnd), kOsrCodeRecordsExit ? OneIfTraced() : 0u);
}

// --- The code.

size_t Occurrences(const std::vector<uint8_t>& code, const std::vector<uint8_t>& wanted) {
  size_t count = 0u;
  for (size_t i = 0u; i + wanted.size() <= code.size(); ++i) {
    count += memcmp(&code[i], wanted.data(), wanted.size()) == 0 ? 1u : 0u;
  }
  return count;
}

TEST(TracePointsTest, TheCounterIsReadInPlaceInTheInlineFormOnly) {
  for (InstructionSet isa : kIsas) {
    std::vector<uint8_t> reads;
    switch (isa) {
      case InstructionSet::kX86_64: reads = {0x0f, 0x31}; break;              // rdtsc
      case InstructionSet::kArm64: reads = {0x51, 0xe0, 0x3b, 0xd5}; break;   // mrs x17, cntvct_el0
      default: reads = {0x1e, 0xcf}; break;                                   // mrrc p15, 1, …, c14
    }
    Method method(isa);
    method.Loop();
    method.Insert();
    const std::vector<uint8_t> code = method.Lower();
    const size_t expected = HasTracePointsHere() && !IsShared() ? 2u : 0u;
    const size_t found = Occurrences(code, reads);
    if (isa == InstructionSet::kThumb2 && expected != 0u) {
      // At the exit the instruction has other registers.
      EXPECT_EQ(found, 1u) << isa;
    } else {
      EXPECT_EQ(found, expected) << isa;
    }
  }
}

TEST(TracePointsTest, ALeafStaysWithoutFrame) {
  for (InstructionSet isa : kIsas) {
    Method method(isa);
    method.TwoReturns();
    method.Insert();
    method.Lower();
    EXPECT_TRUE(method.codegen->IsLeafMethod()) << isa;
    if (isa != InstructionSet::kThumb2 || !HasTracePointsHere()) {
      EXPECT_TRUE(method.codegen->HasEmptyFrame()) << isa;
    }
  }
}

TEST(TracePointsTest, TheSharedEntryTestsItsOwnWordAndTheLoopTheFlags) {
  // cmp{w,l} gs:[offset], 0
  auto tests = [](const std::vector<uint8_t>& code, int32_t offset) {
    std::vector<uint8_t> operand = {0x65, 0x83, 0x3c, 0x25};
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&offset);
    operand.insert(operand.end(), bytes, bytes + 4);
    std::vector<uint8_t> narrow = operand;
    narrow.insert(narrow.begin(), 0x66);
    std::vector<uint8_t> swapped = operand;
    swapped.insert(swapped.begin() + 1, 0x66);
    return std::max(Occurrences(code, operand), Occurrences(code, narrow)) +
           Occurrences(code, swapped);
  };
  const int32_t poll = PollOffset<PointerSize::k64>().Int32Value();
  Method method(InstructionSet::kX86_64);
  method.ReturnOrThrow();
  method.Insert();
  EXPECT_EQ(tests(method.Lower(), poll), IsShared() ? 1u : 0u);
  EXPECT_FALSE(method.codegen->IsLeafMethod());

  Method with_loop(InstructionSet::kX86_64);
  with_loop.Loop();
  with_loop.Insert();
  const std::vector<uint8_t> code = with_loop.Lower();
  EXPECT_FALSE(with_loop.codegen->IsLeafMethod());
#if HINDSIGHT_ART >= 14
  // The method calls on slow paths only, so it has no suspend check at its entry.
  EXPECT_EQ(tests(code, poll), 0u);
#else
  const int32_t flags = Thread::ThreadFlagsOffset<PointerSize::k64>().Int32Value();
  EXPECT_EQ(tests(code, poll), IsShared() ? 1u : 0u);
  if (IsShared()) {
    EXPECT_EQ(tests(code, flags), 1u);
  }
#endif
}

// --- Tracing and code without trace points exclude each other.

TEST(TracingGateTest, UntracedCodeThatCameFirstKeepsTracingOut) {
  TracingGate gate;
  EXPECT_TRUE(gate.AdmitUntracedCode());
  EXPECT_TRUE(gate.AdmitUntracedCode());
  EXPECT_FALSE(gate.AdmitTracing());
  gate.WithdrawTracing();
  EXPECT_FALSE(gate.AdmitTracing());
}

TEST(TracingGateTest, TracingThatCameFirstKeepsUntracedCodeOut) {
  TracingGate gate;
  EXPECT_TRUE(gate.AdmitTracing());
  EXPECT_FALSE(gate.AdmitUntracedCode());
  gate.WithdrawTracing();
  EXPECT_TRUE(gate.AdmitUntracedCode());
}

TEST(TracingGateTest, AnInstructionSetWithoutTracePointsIsNotTraced) {
  for (TracePointForm form : {TracePointForm::kShared, TracePointForm::kNone}) {
    TracingGate gate;
    EXPECT_NE(ObstacleToTracing(InstructionSet::kX86, form, &gate).find("x86 has no trace points"),
              std::string::npos);
    EXPECT_TRUE(gate.AdmitUntracedCode()) << "it is not traced";
  }
}

TEST(TracingGateTest, AProcessThatCompilesWithoutTracePointsIsNotTraced) {
  for (InstructionSet isa : kIsas) {
    TracingGate gate;
    EXPECT_NE(ObstacleToTracing(isa, TracePointForm::kNone, &gate).find("HINDSIGHT_TRACE_POINTS=none"),
              std::string::npos);
    EXPECT_EQ(ObstacleToTracing(isa, TracePointForm::kInline, &gate), "");
    EXPECT_NE(ObstacleToTracing(isa, TracePointForm::kShared, &gate), "") << "it is traced already";
    EXPECT_FALSE(gate.AdmitUntracedCode());
  }
}

std::unique_ptr<OatHeader> HeaderOf(InstructionSet isa, const std::string& trace_points) {
  std::string error;
  auto features = InstructionSetFeatures::FromVariant(isa, "default", &error);
  CHECK(features != nullptr) << error;
  SafeMap<std::string, std::string> keys;
  keys.Put(kOatHeaderKey, trace_points);
  return std::unique_ptr<OatHeader>(OatHeader::Create(isa, features.get(), 1u, &keys));
}

TEST(TracingGateTest, ATracedProcessOpensNoOatFileWithoutTracePoints) {
  const InstructionSet isa = InstructionSet::kX86_64;
  const auto none = HeaderOf(isa, "none");
  const auto own = HeaderOf(isa, HasTracePointsHere() ? TracePointsId(isa) : "none");
  const auto x86 = HeaderOf(InstructionSet::kX86, "none");
  std::string error;
  ASSERT_TRUE(GetTracingGate()->AdmitTracing());
  EXPECT_FALSE(HasMatchingTracePoints(*none, "a.odex", &error));
  EXPECT_NE(error.find("'a.odex' has no trace points"), std::string::npos) << error;
  EXPECT_EQ(HasMatchingTracePoints(*own, "a.odex", &error), HasTracePointsHere());
  EXPECT_TRUE(HasMatchingTracePoints(*x86, "a.odex", &error)) << "no process of x86 is traced";
  GetTracingGate()->WithdrawTracing();
  EXPECT_TRUE(HasMatchingTracePoints(*none, "a.odex", &error)) << error;
  EXPECT_FALSE(GetTracingGate()->AdmitTracing());
}

TEST(TrivialMethodsTest, CodeThatLeavesOutOtherMethodsIsRefused) {
  if (!HasTracePointsHere()) {
    return;
  }
  const InstructionSet isa = InstructionSet::kX86_64;
  const std::string own = TracePointsId(isa);
  const size_t mark = own.find(",trivial-left-out@");
  ASSERT_EQ(mark != std::string::npos, LeavesOutTrivialMethods()) << own;
  const std::string all = own.substr(0u, mark);
  std::string error;
  EXPECT_TRUE(HasMatchingTracePoints(*HeaderOf(isa, own), "a.odex", &error)) << error;
  EXPECT_EQ(HasMatchingTracePoints(*HeaderOf(isa, all), "a.odex", &error), !LeavesOutTrivialMethods());
  EXPECT_FALSE(HasMatchingTracePoints(*HeaderOf(isa, all + ",trivial-left-out@0"), "a.odex", &error));
  EXPECT_NE(error.find("other trace points"), std::string::npos) << error;
}

// --- The recorded events. Only on x86-64, whose thread register can be set to any address.

#if defined(__x86_64__)

// A method's code, with a made-up Thread.
class Running {
 public:
  explicit Running(const std::vector<uint8_t>& code) : thread_(sizeof(Thread) + 64u) {
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_GET_GS, &before_), 0);
    code_ = mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_ = code.size();
    CHECK(code_ != MAP_FAILED);
    memcpy(code_, code.data(), code.size());
    CHECK_EQ(mprotect(code_, size_, PROT_READ | PROT_EXEC), 0);
  }

  ~Running() { munmap(code_, size_); }

  // Records from here on, and takes calls back that are shorter than this, in ticks.
  void Trace(uint32_t rewind_below = 0u) {
    ring_.assign(16u, 0u);
    // There is a slot before a ring's first.
    Word(CursorOffset<PointerSize::k64>()) = reinterpret_cast<uintptr_t>(ring_.data() + 1);
    SetEpoch(__builtin_ia32_rdtsc() >> 32);
    SmallWord(HINDSIGHT_REWIND_BELOW) = rewind_below;
    Word(ExitStubOffset<PointerSize::k64>()) = RecordingStubs().exit;
    Word(LeafStubOffset<PointerSize::k64>()) = RecordingStubs().leaf_entry;
    Word(PollOffset<PointerSize::k64>()) = 1u;
    QuickEntryPoints entry_points = {};
    InitTraceEntryPoints(&entry_points);
    Word(GetThreadOffset<PointerSize::k64>(kQuickTraceEntry)) =
        reinterpret_cast<uintptr_t>(entry_points.pTraceEntry);
  }

  int32_t Call(uint64_t method, int32_t argument) {
    auto code = reinterpret_cast<int32_t (*)(uint64_t, int32_t)>(code_);
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, thread_.data()), 0);
    const int32_t result = code(method, argument);
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, before_), 0);
    return result;
  }

  void SetEpoch(uint32_t epoch) { SmallWord(HINDSIGHT_EPOCH) = epoch; }
  uint32_t TakenBack() { return SmallWord(HINDSIGHT_TAKEN_BACK_COUNT); }
  uint32_t Epoch() { return SmallWord(HINDSIGHT_EPOCH); }

  // Notes the calls that are taken back here.
  void SetLog(uint64_t* log) { memcpy(&SmallWord(HINDSIGHT_REWIND_LOG), &log, sizeof(log)); }

  // All slots since recording started.
  std::vector<uint64_t> Slots() {
    const uint64_t* end = reinterpret_cast<uint64_t*>(Word(CursorOffset<PointerSize::k64>()));
    return std::vector<uint64_t>(static_cast<const uint64_t*>(ring_.data()) + 1, end);
  }

  // The slot that the next event will overwrite.
  uint64_t NextSlot() { return *reinterpret_cast<uint64_t*>(Word(CursorOffset<PointerSize::k64>())); }

  // The lower halves of the recorded slots: methods, and 0 for exits. Without FullTime, which may happen at any time.
  std::vector<uint32_t> Recorded() {
    std::vector<uint32_t> found;
    for (uint64_t slot : Slots()) {
      EXPECT_NE(slot >> 32, 0u) << "no time in slot " << found.size();
      found.push_back(static_cast<uint32_t>(slot));
      if (found.back() == kFullTime) {
        found.resize(found.size() - 3u);
      }
    }
    return found;
  }

 private:
  uint32_t& SmallWord(size_t distance) {
    return *reinterpret_cast<uint32_t*>(
        thread_.data() + CursorOffset<PointerSize::k64>().SizeValue() + distance);
  }

  uintptr_t& Word(ThreadOffset<PointerSize::k64> offset) {
    return *reinterpret_cast<uintptr_t*>(thread_.data() + offset.SizeValue());
  }

  std::vector<uint8_t> thread_;
  std::vector<uint64_t> ring_;
  void* code_;
  size_t size_;
  unsigned long before_ = 0u;  // NOLINT
};

constexpr uint64_t kMethod = 0x12345678u;

void TestRun(void (Method::*build)(), int32_t argument, int32_t expected) {
  Method method(InstructionSet::kX86_64);
  (method.*build)();
  method.Insert();
  Running running(method.Lower());
  // While the thread is not traced, the code computes the same result, and records nothing.
  EXPECT_EQ(running.Call(kMethod, argument), expected);
  running.Trace();
  EXPECT_EQ(running.Call(kMethod, argument), expected);
  EXPECT_EQ(running.Call(kMethod + 8u, argument), expected);
  const std::vector<uint32_t> wanted = {kMethod, 0u, kMethod + 8u, 0u};
  EXPECT_EQ(running.Recorded(), HasTracePointsHere() ? wanted : std::vector<uint32_t>());
}

TEST(TracePointsTest, ALeafRecordsItsEntryAndWhicheverExitItTakes) {
  TestRun(&Method::TwoReturns, 3, 4);
  TestRun(&Method::TwoReturns, 30, 29);
}

TEST(TracePointsTest, AMethodThatCallsRecordsItsEntryWithItsSuspendCheck) {
  TestRun(&Method::ReturnOrThrow, 3, 4);
}

TEST(TracePointsTest, AMethodWithALoopRecordsOneEntryAndOneExit) {
  TestRun(&Method::Loop, 0, 12);
  TestRun(&Method::Loop, 50, 53);
}

// The stubs take calls back; the inline form does not.

std::unique_ptr<Running> RunningMethod() {
  Method method(InstructionSet::kX86_64);
  method.ReturnOrThrow();
  method.Insert();
  return std::make_unique<Running>(method.Lower());
}

TEST(TracePointsTest, AShortCallIsTakenBackAndItsSlotMarked) {
  if (!IsShared()) {
    return;
  }
  std::unique_ptr<Running> running = RunningMethod();
  running->Trace(/* rewind_below= */ 0xffffffffu);
  uint64_t log[4] = {};
  running->SetLog(log);
  EXPECT_EQ(running->Call(kMethod, 3), 4);
  EXPECT_EQ(running->Call(kMethod + 8u, 3), 4);
  // A change of the epoch, once in a second, keeps a call.
  if (running->TakenBack() == 2u) {
    EXPECT_EQ(running->Recorded(), std::vector<uint32_t>());
    EXPECT_EQ(static_cast<uint32_t>(running->NextSlot()), static_cast<uint32_t>(HINDSIGHT_TAKEN_BACK));
    // The entry; the counter at the exit, and where the entry was.
    EXPECT_EQ(static_cast<uint32_t>(log[0]), kMethod);
    EXPECT_EQ(static_cast<uint32_t>(log[2]), kMethod + 8u);
    EXPECT_GT(static_cast<uint32_t>(log[1]), static_cast<uint32_t>(log[0] >> 32));
    EXPECT_EQ(log[1] >> 32, log[3] >> 32);
  } else {
    EXPECT_GT(running->Slots().size(), 3u);
  }
}

TEST(TracePointsTest, ACallThatIsNotShorterThanTheLimitIsKept) {
  if (!IsShared()) {
    return;
  }
  std::unique_ptr<Running> running = RunningMethod();
  // Two reads of the counter are some ticks apart.
  running->Trace(/* rewind_below= */ 1u);
  EXPECT_EQ(running->Call(kMethod, 3), 4);
  EXPECT_EQ(running->TakenBack(), 0u);
  EXPECT_EQ(running->Recorded(), (std::vector<uint32_t>{kMethod, 0u}));
}

TEST(TracePointsTest, AChangeOfTheCountersUpperHalfIsRecorded) {
  if (!IsShared()) {
    return;
  }
  std::unique_ptr<Running> running = RunningMethod();
  running->Trace();
  running->SetEpoch(1u);
  EXPECT_EQ(running->Call(kMethod, 3), 4);
  const std::vector<uint64_t> slots = running->Slots();
  ASSERT_GE(slots.size(), 5u);
  EXPECT_EQ(slots[0], 0x1ffffffffu) << "the last slot was no newer";
  EXPECT_EQ(static_cast<uint32_t>(slots[2]), kFullTime);
  EXPECT_EQ(slots[2] >> 32, slots[1] & 0xffffffffu) << "the whole counter of the event";
  EXPECT_EQ(slots[3], (slots[1] << 32) | kMethod) << "and of the entry";
  EXPECT_GT(slots[1] >> 32, 1u);
  EXPECT_GE(running->Epoch(), slots[1] >> 32);
}

#endif  // defined(__x86_64__)

}  // namespace
}  // namespace hindsight
}  // namespace art
