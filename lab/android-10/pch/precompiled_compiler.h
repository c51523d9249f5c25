// SPDX-License-Identifier: Apache-2.0
// What most files of the compiler include, directly or not: precompiled once a build.
// (Not optimizing/code_generator.h: its CallingConvention is not that of jni/quick/.)
#include <algorithm>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "art_method-inl.h"
#include "base/scoped_arena_containers.h"
#include "class_linker-inl.h"
#include "compiled_method.h"
#include "driver/compiler_options.h"
#include "gc/heap.h"
#include "gc/space/image_space.h"
#include "linker/linker_patch.h"
#include "mirror/array-inl.h"
#include "mirror/class-inl.h"
#include "mirror/object_array-inl.h"
#include "mirror/string.h"
#include "oat_file.h"
#include "optimizing/nodes.h"
#include "optimizing/optimizing_compiler_stats.h"
#include "scoped_thread_state_change-inl.h"
#include "stack_map.h"
#include "thread-inl.h"
