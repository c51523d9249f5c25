// SPDX-License-Identifier: Apache-2.0
//
// The program hindsightd on a device: the Rust library does the work. Here is what belongs to Android: the sockets
// that init made, and the log.

#include <cutils/sockets.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "log_output.h"

// Defined in the Rust library (service/src/ffi.rs).
extern "C" int hindsightd_main(int argc, const char* const* argv);

namespace {

using hindsight::LogOutput;

// The user of hindsight_upload.rc, AID_METRICS_COLL of android_filesystem_config.h in all releases.
constexpr char kUploaderUid[] = "1042";

// Adds the option that names a socket of init's, if init made one of this name. Listens on it first, so that a
// process that connects from now on is in the queue.
bool AddSocket(const LogOutput& log, const char* name, const char* option, std::vector<std::string>* arguments) {
  int descriptor = android_get_control_socket(name);
  if (descriptor < 0) {
    return false;
  }
  if (listen(descriptor, SOMAXCONN) != 0) {
    log.Error(name);
    return false;
  }
  arguments->push_back(option);
  arguments->push_back(std::to_string(descriptor));
  return true;
}

// Lets every process connect. Init made the socket with mode 0600, before anybody listened. Processes that wait for the
// service watch the folder /dev/socket; the change of the mode tells them to connect.
void OpenToAll(const LogOutput& log, const char* name) {
  std::string path = std::string(ANDROID_SOCKET_DIR "/") + name;
  if (chmod(path.c_str(), 0666) != 0) {
    log.Error(path.c_str());
  }
}

int Serve(int argc, char** argv) {
  LogOutput log("hindsightd");
  std::vector<std::string> arguments(argv, argv + argc);
  if (AddSocket(log, "hindsightd", "--socket-fd", &arguments)) {
    OpenToAll(log, "hindsightd");
  }
  AddSocket(log, "hindsightd_commands", "--commands-fd", &arguments);
  if (AddSocket(log, "hindsightd_uploads", "--uploads-fd", &arguments)) {
    // On a device nothing leaves unless an app of the system allows it for a time (dev.hindsight.Uploads).
    for (const char* option : {"--uploads-when", "allowed", "--uploader-uid", kUploaderUid}) {
      arguments.push_back(option);
    }
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(argument.c_str());
  }
  pointers.push_back(nullptr);
  return hindsightd_main(static_cast<int>(arguments.size()), pointers.data());
}

}  // namespace

int main(int argc, char** argv) {
  // With --command this program is a client of the running service: its output goes to the caller, not to the log.
  if (argc > 1 && std::string(argv[1]) == "--command") {
    return hindsightd_main(argc, argv);
  }
  return Serve(argc, argv);
}
