// SPDX-License-Identifier: Apache-2.0
//
// The part of Android's header that hindsightd.cc uses.
#pragma once
#define ANDROID_SOCKET_DIR "/dev/socket"
extern "C" int android_get_control_socket(const char* name);
