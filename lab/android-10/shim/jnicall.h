// SPDX-License-Identifier: Apache-2.0
// Native methods on 32-bit ARM: ART's code passes and expects floating point in core registers (the
// base AAPCS, as Android's armeabi-v7a does), Debian's armhf compiles functions for VFP registers.
// Included in front of every file that defines natives; JNI's own functions stay as they are.
#pragma once
#include <jni.h>
#if defined(__arm__)
#undef JNICALL
#define JNICALL __attribute__((pcs("aapcs")))
#ifdef __cplusplus
#include <jni_macros.h>
// The templates that check a native's signature do not match functions with the attribute.
#undef NATIVE_METHOD
#undef FAST_NATIVE_METHOD
#undef CRITICAL_NATIVE_METHOD
#undef OVERLOADED_FAST_NATIVE_METHOD
#undef OVERLOADED_NATIVE_METHOD
#undef OVERLOADED_CRITICAL_NATIVE_METHOD
#define OVERLOADED_NATIVE_METHOD(c, n, s, i) { #n, s, reinterpret_cast<void*>(c##_##i) }
#define OVERLOADED_FAST_NATIVE_METHOD(c, n, s, i) OVERLOADED_NATIVE_METHOD(c, n, s, i)
#define OVERLOADED_CRITICAL_NATIVE_METHOD(c, n, s, i) OVERLOADED_NATIVE_METHOD(c, n, s, i)
#define NATIVE_METHOD(c, n, s) OVERLOADED_NATIVE_METHOD(c, n, s, n)
#define FAST_NATIVE_METHOD(c, n, s) OVERLOADED_NATIVE_METHOD(c, n, s, n)
#define CRITICAL_NATIVE_METHOD(c, n, s) OVERLOADED_NATIVE_METHOD(c, n, s, n)
#endif
#endif
