// SPDX-License-Identifier: Apache-2.0
//
// Prints log messages as AOSP's liblog does on a host with ANDROID_PRINTF_LOG=brief, which is what
// the run-tests' check scripts know how to filter. Debian's liblog is of a later release and has
// one fixed format, with a date. Preloaded into dalvikvm; what libart itself logs goes through
// libbase and has the same format in both.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

// Indexed by android_LogPriority.
static const char kLetters[] = "??VDIWEFS";

// The threshold that ANDROID_LOG_TAGS gives to a tag: "TAG:p" or "*:p", the last match counts.
static int threshold(const char* tag) {
  int result = 4;  // INFO
  const char* tags = getenv("ANDROID_LOG_TAGS");
  size_t tag_length = tag == NULL ? 0 : strlen(tag);
  while (tags != NULL && *tags != '\0') {
    size_t length = strcspn(tags, " ,\t");
    const char* colon = memchr(tags, ':', length);
    if (colon != NULL && colon + 1 < tags + length) {
      size_t name_length = (size_t)(colon - tags);
      int all = name_length == 1 && *tags == '*';
      if (all || (name_length == tag_length && memcmp(tags, tag, tag_length) == 0)) {
        char letter = colon[1] >= 'a' ? (char)(colon[1] - 'a' + 'A') : colon[1];
        const char* found = strchr(kLetters + 2, letter);
        if (found != NULL) {
          result = (int)(found - kLetters);
        }
      }
    }
    tags += length;
    tags += strspn(tags, " ,\t");
  }
  return result;
}

EXPORT int __android_log_write(int priority, const char* tag, const char* text) {
  if (tag == NULL) {
    tag = "";
  }
  if (text == NULL) {
    text = "";
  }
  if (priority < threshold(tag) || priority < 2 || priority > 8) {
    return 0;
  }
  // One write for all lines, so that threads' messages don't mix.
  char* out = NULL;
  size_t size = 0;
  FILE* f = open_memstream(&out, &size);
  if (f == NULL) {
    return -1;
  }
  do {
    size_t line = strcspn(text, "\n");
    fprintf(f, "%c/%-8s(%5d): %.*s\n", kLetters[priority], tag, (int)getpid(), (int)line, text);
    text += line;
    if (*text == '\n') {
      text++;
    }
  } while (*text != '\0');
  if (fclose(f) == 0) {
    size_t done = 0;
    while (done < size) {
      ssize_t n = write(STDERR_FILENO, out + done, size - done);
      if (n <= 0) {
        break;
      }
      done += (size_t)n;
    }
  }
  free(out);
  return 1;
}

EXPORT int __android_log_vprint(int priority, const char* tag, const char* format, va_list args) {
  char* text = NULL;
  if (vasprintf(&text, format, args) < 0) {
    return -1;
  }
  int result = __android_log_write(priority, tag, text);
  free(text);
  return result;
}

EXPORT int __android_log_print(int priority, const char* tag, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int result = __android_log_vprint(priority, tag, format, args);
  va_end(args);
  return result;
}

EXPORT int __android_log_buf_write(int buffer, int priority, const char* tag, const char* text) {
  (void)buffer;
  return __android_log_write(priority, tag, text);
}

EXPORT int __android_log_buf_print(int buffer, int priority, const char* tag, const char* format, ...) {
  (void)buffer;
  va_list args;
  va_start(args, format);
  int result = __android_log_vprint(priority, tag, format, args);
  va_end(args);
  return result;
}
