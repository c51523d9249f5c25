// SPDX-License-Identifier: Apache-2.0
// What the native parts of the run-tests include, directly or not: precompiled once a build. (Not those of the
// JVMTI agent, which define some of the constants again.)
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "android-base/logging.h"
#include "android-base/stringprintf.h"
#include "art_method-inl.h"
#include "gc/heap.h"
#include "jni.h"
#include "jvmti.h"
#include "mirror/class-inl.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-inl.h"
