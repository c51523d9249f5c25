// SPDX-License-Identifier: Apache-2.0
//
// Starts a program as Android's zygote starts an app: no supplementary groups, gid, the filter of system calls, uid,
// then the SELinux domain.
//
//   confine [--reach FOLDER] UID CONTEXT FILTER PROGRAM [ARGUMENT...]    '-' for no context, no filter
//   confine --label CONTEXT PATH...                     sets the label of files
//
// --reach: other users may not enter a folder above FOLDER (as /root); for this program, an empty one is in its place
// that has nothing but FOLDER.
//
// FILTER is a file of struct sock_filter (at most 4096), as the kernel takes it. Exit status 125: not started, 124: FOLDER
// can't be mounted here.

#define _GNU_SOURCE  // setresuid
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct sock_filter filter[BPF_MAXINSNS];

static void fail_with(int status, const char* what, const char* which) {
  fprintf(stderr, "confine: %s %s: %s\n", what, which, strerror(errno));
  exit(status);
}

static void fail(const char* what, const char* which) { fail_with(125, what, which); }

static int label(const char* context, char** paths) {
  for (; *paths; ++paths) {
    if (lsetxattr(*paths, "security.selinux", context, strlen(context) + 1, 0) != 0) fail("label", *paths);
  }
  return 0;
}

static unsigned short read_filter(const char* path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("open", path);
  struct stat status;
  if (fstat(file, &status) != 0) fail("ask for the size of", path);
  errno = EINVAL;
  if (status.st_size == 0 || status.st_size > (off_t)sizeof filter || status.st_size % sizeof *filter != 0) {
    fail("read", path);
  }
  if (read(file, filter, status.st_size) != status.st_size) fail("read", path);
  close(file);
  return status.st_size / sizeof *filter;
}

static void install(unsigned short length) {
  struct sock_fprog program = {.len = length, .filter = filter};
  // Root may install a filter as it is; others have to give up set-uid programs first.
  if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("prctl", "PR_SET_NO_NEW_PRIVS");
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) fail("seccomp", "filter");
}

static void enter(const char* context) {
  int file = open("/proc/self/attr/current", O_WRONLY | O_CLOEXEC);
  if (file < 0) fail("open", "/proc/self/attr/current");
  size_t length = strlen(context);
  if (write(file, context, length) != (ssize_t)length) fail("enter", context);
  close(file);
}

// The length of the path of the first folder above this one that other users may not enter; 0 if they may enter all.
static size_t first_closed(const char* folder) {
  char above[PATH_MAX];
  errno = EINVAL;
  if (folder[0] != '/' || strlen(folder) >= sizeof above) fail("reach", folder);
  strcpy(above, folder);
  for (char* end = strchr(above + 1, '/'); end != NULL; end = strchr(end + 1, '/')) {
    struct stat status;
    *end = 0;
    if (stat(above, &status) != 0) fail("ask for the mode of", above);
    if ((status.st_mode & S_IXOTH) == 0) return end - above;
    *end = '/';
  }
  return 0;
}

// Makes a folder reachable for every user, in a name space of mounts of this process's own.
static void reach(const char* folder) {
  size_t closed = first_closed(folder);
  if (closed == 0) return;
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
    fail_with(124, "unshare for", folder);
  }
  int wanted = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (wanted < 0) fail("open", folder);
  char above[PATH_MAX];
  strcpy(above, folder);
  above[closed] = 0;
  if (mount("none", above, "tmpfs", 0, "mode=755") != 0) fail_with(124, "cover", above);
  for (size_t i = closed + 1; i <= strlen(folder); ++i) {
    if (folder[i] != '/' && folder[i] != 0) continue;
    memcpy(above, folder, i);
    above[i] = 0;
    if (mkdir(above, 0755) != 0) fail("make", above);
  }
  char opened[64];
  snprintf(opened, sizeof opened, "/proc/self/fd/%d", wanted);
  if (mount(opened, folder, NULL, MS_BIND | MS_REC, NULL) != 0) fail_with(124, "mount", folder);
  close(wanted);
}

int main(int count, char** words) {
  if (count >= 4 && strcmp(words[1], "--label") == 0) return label(words[2], words + 3);
  if (count >= 3 && strcmp(words[1], "--reach") == 0) {
    reach(words[2]);
    words += 2;
    count -= 2;
  }
  if (count < 5) {
    fprintf(stderr, "usage: confine [--reach FOLDER] UID CONTEXT FILTER PROGRAM [ARGUMENT...]\n");
    return 125;
  }
  char* end;
  unsigned long uid = strtoul(words[1], &end, 10);
  errno = EINVAL;
  if (*end != 0 || end == words[1] || uid > 0x7fffffff) fail("not a uid:", words[1]);
  unsigned short length = strcmp(words[3], "-") == 0 ? 0 : read_filter(words[3]);
  if (geteuid() == 0 && setgroups(0, NULL) != 0) fail("setgroups", words[1]);
  if (setresgid(uid, uid, uid) != 0) fail("setresgid", words[1]);
  // An app's filter allows setresuid for this place only, and not setresgid.
  if (length != 0) install(length);
  if (setresuid(uid, uid, uid) != 0) fail("setresuid", words[1]);
  if (strcmp(words[2], "-") != 0) enter(words[2]);
  execv(words[4], words + 4);
  fail("start", words[4]);
}
