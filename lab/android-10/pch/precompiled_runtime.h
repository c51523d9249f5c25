// SPDX-License-Identifier: Apache-2.0
// What most files of the runtime include, directly or not: precompiled once a build. A header that
// is still being worked on belongs here only if nearly everything includes it anyway.
#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "art_method-inl.h"
#include "base/hash_set.h"
#include "base/scoped_arena_containers.h"
#include "class_linker-inl.h"
#include "class_root.h"
#include "gc/heap-inl.h"
#include "handle_scope-inl.h"
#include "jni/jni_internal.h"
#include "mirror/class-inl.h"
#include "mirror/dex_cache-inl.h"
#include "mirror/object_array-inl.h"
#include "mirror/string-inl.h"
#include "oat_file.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "stack.h"
#include "stack_map.h"
#include "thread-inl.h"
#include "thread_list.h"
#include "well_known_classes.h"
