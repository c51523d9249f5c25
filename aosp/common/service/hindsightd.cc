// SPDX-License-Identifier: Apache-2.0
//
// The program hindsightd on a device: the Rust library does the work. Here is what belongs to Android: the sockets
// that init made, and the log.

#include <android/log.h>
#include <cutils/sockets.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

// Defined in the Rust library (service/src/ffi.rs).
extern "C" int hindsightd_main(int argc, const char* const* argv);

namespace {

constexpr char kTag[] = "hindsightd";
// Longer lines are cut: the log takes about 4000 bytes.
constexpr size_t kMaxLine = 1000;

void LogError(const char* what) {
  std::string line = std::string(what) + ": " + strerror(errno);
  __android_log_write(ANDROID_LOG_ERROR, kTag, line.c_str());
}

// Copies lines from a pipe to the log, until the pipe's other end is closed.
void* CopyToLog(void* argument) {
  FILE* lines = static_cast<FILE*>(argument);
  char line[kMaxLine];
  while (fgets(line, sizeof(line), lines) != nullptr) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] != '\0') {
      __android_log_write(ANDROID_LOG_INFO, kTag, line);
    }
  }
  fclose(lines);
  return nullptr;
}

// Sends stdout and stderr to the log. Init opens both at /dev/null, and Rust's panics are written to stderr.
// Without it the service still works.
bool StartLog(pthread_t* thread) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    LogError("no pipe for the log");
    return false;
  }
  FILE* lines = fdopen(ends[0], "r");
  if (lines == nullptr || pthread_create(thread, nullptr, CopyToLog, lines) != 0) {
    LogError("no thread for the log");
    return false;
  }
  dup2(ends[1], STDOUT_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  return true;
}

// Adds the option that names a socket of init's, if init made one of this name. Listens on it first, so that a
// process that connects from now on is in the queue.
bool AddSocket(const char* name, const char* option, std::vector<std::string>* arguments) {
  int descriptor = android_get_control_socket(name);
  if (descriptor < 0) {
    return false;
  }
  if (listen(descriptor, SOMAXCONN) != 0) {
    LogError(name);
    return false;
  }
  arguments->push_back(option);
  arguments->push_back(std::to_string(descriptor));
  return true;
}

// Lets every process connect. Init made the socket with mode 0600, before anybody listened. Processes that wait for the
// service watch the folder /dev/socket; the change of the mode tells them to connect.
void OpenToAll(const char* name) {
  std::string path = std::string(ANDROID_SOCKET_DIR "/") + name;
  if (chmod(path.c_str(), 0666) != 0) {
    LogError(path.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  // With --command this program is a client of the running service: its output goes to the caller, not to the log.
  if (argc > 1 && arguments[1] == "--command") {
    return hindsightd_main(argc, argv);
  }
  pthread_t log;
  bool has_log = StartLog(&log);
  if (AddSocket("hindsightd", "--socket-fd", &arguments)) {
    OpenToAll("hindsightd");
  }
  AddSocket("hindsightd_commands", "--commands-fd", &arguments);
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(argument.c_str());
  }
  pointers.push_back(nullptr);
  int code = hindsightd_main(static_cast<int>(arguments.size()), pointers.data());
  if (has_log) {
    // The thread ends when it has copied the last line.
    fflush(stdout);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    pthread_join(log, nullptr);
  }
  return code;
}
