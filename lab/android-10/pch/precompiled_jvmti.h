// SPDX-License-Identifier: Apache-2.0
// What most files of the JVMTI agent include, directly or not: precompiled once a build.
#include <memory>
#include <string>
#include <vector>

#include "art_field-inl.h"
#include "art_jvmti.h"
#include "art_method-inl.h"
#include "class_linker-inl.h"
#include "events-inl.h"
#include "gc/heap.h"
#include "jni/jni_internal.h"
#include "mirror/class-inl.h"
#include "mirror/object_array-inl.h"
#include "nativehelper/scoped_local_ref.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-inl.h"
#include "thread_list.h"
