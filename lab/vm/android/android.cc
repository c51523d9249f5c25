// SPDX-License-Identifier: Apache-2.0
//
// Android's functions that hindsightd.cc calls, for the guest: the sockets that init made are named in the environment, as
// in libcutils; the log is the standard output that the program was started with.
#include <android/log.h>
#include <cutils/sockets.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

extern "C" int android_get_control_socket(const char* name) {
  const char* number = getenv((std::string("ANDROID_SOCKET_") + name).c_str());
  return number == nullptr ? -1 : atoi(number);
}

// Opened before main replaces the standard output.
static const int log_descriptor = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);

extern "C" int __android_log_write(int priority, const char* tag, const char* text) {
  return dprintf(log_descriptor, "%d %s: %s\n", priority, tag, text);
}
