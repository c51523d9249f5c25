// SPDX-License-Identifier: Apache-2.0
//
// Sends the output of a program to Android's log. Init opens stdout and stderr at /dev/null, and the Rust libraries write
// their lines, and panics, to stderr.

#pragma once

#include <android/log.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <string>

namespace hindsight {

// The output of this process, copied to the log line by line as long as the object lives. The destructor returns when the
// last line is copied. Without a pipe or a thread, which the log then says, the program works, and its output is lost.
class LogOutput {
 public:
  // `tag` has to live as long as the object.
  explicit LogOutput(const char* tag) : tag_(tag), is_copied_(Start()) {}

  ~LogOutput() {
    if (is_copied_) {
      // The thread ends when it has copied the last line.
      fflush(stdout);
      close(STDOUT_FILENO);
      close(STDERR_FILENO);
      pthread_join(thread_, nullptr);
    }
  }

  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;

  // A line about the system's last error.
  void Error(const char* what) const {
    std::string line = std::string(what) + ": " + strerror(errno);
    __android_log_write(ANDROID_LOG_ERROR, tag_, line.c_str());
  }

 private:
  // Longer lines are cut: the log takes about 4000 bytes.
  static constexpr size_t kMaxLine = 1000;

  struct Copy {
    FILE* lines;
    const char* tag;
  };

  // Copies lines from a pipe to the log, until the pipe's other end is closed.
  static void* CopyToLog(void* argument) {
    Copy* copy = static_cast<Copy*>(argument);
    char line[kMaxLine];
    while (fgets(line, sizeof(line), copy->lines) != nullptr) {
      line[strcspn(line, "\n")] = '\0';
      if (line[0] != '\0') {
        __android_log_write(ANDROID_LOG_INFO, copy->tag, line);
      }
    }
    fclose(copy->lines);
    delete copy;
    return nullptr;
  }

  bool Start() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      Error("no pipe for the log");
      return false;
    }
    Copy* copy = new Copy{fdopen(ends[0], "r"), tag_};
    if (copy->lines == nullptr || pthread_create(&thread_, nullptr, CopyToLog, copy) != 0) {
      Error("no thread for the log");
      delete copy;
      return false;
    }
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return true;
  }

  const char* tag_;
  pthread_t thread_ = {};
  bool is_copied_;
};

}  // namespace hindsight
