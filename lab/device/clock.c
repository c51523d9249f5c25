// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into hindsightd by 'cargo xtask verify device': the clock of the day is so many seconds ahead as the file that
// $HINDSIGHT_CLOCK_OFFSET names says in its first 8 bytes, at any moment.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t* ahead;

__attribute__((constructor)) static void Map(void) {
  const char* path = getenv("HINDSIGHT_CLOCK_OFFSET");
  int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  void* page = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED) {
    ahead = page;
  }
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  int result = (int)syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME && ahead != NULL) {
    time->tv_sec += *ahead;
  }
  return result;
}
