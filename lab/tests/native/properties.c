// SPDX-License-Identifier: Apache-2.0
//
// The functions of Android's system properties that Hindsight uses, for one property: its values are the lines of the
// FIFO that the environment variable TEST_PROPERTY names. Preloaded into dalvikvm.
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void (*Receive)(void* cookie, const char* name, const char* value, uint32_t serial);

#define EXPORT __attribute__((visibility("default")))

// Used by the one thread that watches.
static struct {
  uint32_t serial;
  char value[92];
} property;

EXPORT const void* __system_property_find(const char* name) {
  return property.serial != 0 && strcmp(name, "dev.nanoscope") == 0 ? &property : NULL;
}

EXPORT void __system_property_read_callback(const void* which, Receive receive, void* cookie) {
  if (which == &property) {
    receive(cookie, "dev.nanoscope", property.value, property.serial);
  }
}

// The value changes only in here.
EXPORT bool __system_property_wait(
    const void* which, uint32_t old, uint32_t* serial, const struct timespec* time) {
  (void)which;
  (void)time;
  static int fifo = -1;
  if (fifo < 0) {
    fifo = open(getenv("TEST_PROPERTY"), O_RDWR | O_CLOEXEC);
  }
  if (property.serial == old) {
    size_t length = 0;
    char c = '\n';
    while (read(fifo, &c, 1) == 1 && c != '\n' && length + 1 < sizeof(property.value)) {
      property.value[length++] = c;
    }
    property.value[length] = '\0';
    property.serial += 2;
  }
  *serial = property.serial;
  return true;
}
