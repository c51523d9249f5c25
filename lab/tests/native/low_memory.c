// SPDX-License-Identifier: Apache-2.0
//
// The native half of LowMemory.java, which also can be preloaded: then, with NO_LOW_ARENAS in the environment, ART's arenas
// for methods find no memory below 4 GiB from the start on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

// ArenaAllocator::kDefaultSize, the size of all arenas but those for one large object.
#define ARENA_BYTES (128u << 10)
#define LOWEST (64ul << 10)
#define END (4ul << 30)

typedef void* (*Mmap)(void*, size_t, int, int, int, off_t);

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  static Mmap next;
  if (next == NULL) {
    next = (Mmap)dlsym(RTLD_NEXT, "mmap");
  }
  if ((flags & MAP_32BIT) != 0 && bytes == ARENA_BYTES && getenv("NO_LOW_ARENAS") != NULL) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return next(address, bytes, protection, flags, fd, offset);
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return mmap(address, bytes, protection, flags, fd, offset);
}

// Takes all addresses below 4 GiB that are free.
JNIEXPORT void JNICALL Java_LowMemory_fill(JNIEnv* env, jclass type) {
  (void)env;
  (void)type;
  FILE* maps = fopen("/proc/self/maps", "r");
  unsigned long end = LOWEST;
  unsigned long next_begin = LOWEST;
  unsigned long next_end = LOWEST;
  while (end < END) {
    if (fscanf(maps, "%lx-%lx%*[^\n]", &next_begin, &next_end) != 2 || next_begin > END) {
      next_begin = next_end = END;
    }
    if (next_begin > end) {
      mmap((void*)end, next_begin - end, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    }
    // A map that is read again after it has grown may begin and end below.
    end = next_end > end ? next_end : end;
  }
  fclose(maps);
}

JNIEXPORT jint JNICALL Java_LowMemory_twice(JNIEnv* env, jclass type, jint n) {
  (void)env;
  (void)type;
  return 2 * n;
}
