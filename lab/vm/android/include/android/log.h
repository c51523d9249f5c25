// SPDX-License-Identifier: Apache-2.0
//
// The part of Android's header that hindsightd.cc uses.
#pragma once
enum { ANDROID_LOG_INFO = 4, ANDROID_LOG_ERROR = 6 };
extern "C" int __android_log_write(int priority, const char* tag, const char* text);
