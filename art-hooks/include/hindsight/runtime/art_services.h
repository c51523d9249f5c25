// SPDX-License-Identifier: Apache-2.0
//
// ART's services for Hindsight's control thread. Rust calls them through the bridge in art-hooks/src/bridge.rs, on
// the control thread only; any thread may call Log, NameMethodsOfClass and NameMethodsOfLoader.

#ifndef HINDSIGHT_RUNTIME_ART_SERVICES_H_
#define HINDSIGHT_RUNTIME_ART_SERVICES_H_

#include <stdint.h>

#include "rust/cxx.h"

namespace art {

class ClassTable;
class LinearAlloc;

namespace hindsight {

// Rust types, defined in bridge.rs.
namespace bridge {
struct SafepointRequest;
struct SymbolSink;
}  // namespace bridge

// Attaches the calling thread as a daemon without a Java peer, and marks it as the control thread. Returns false if
// the runtime is shutting down.
bool AttachControlThread();
void DetachControlThread();

// Whether the calling thread is the control thread, which is never traced.
bool IsControlThread();

// Runs `request` while the thread with this kernel id is at a safepoint: by that thread itself if it
// runs managed code, otherwise on its behalf while it is kept suspended or in native code (an ART
// checkpoint). Returns false if there is no such thread.
bool RunAtSafepoint(uint32_t tid, bridge::SafepointRequest& request);

// The next two are for the lock-free stop protocol, and only in the lab's build (lab_build.h).

// Whether the thread with the ThreadWords at this address is Runnable. A thread records in that state only.
bool RunsManagedCode(size_t words);

// The reason why protocol=lock-free cannot be used, or an empty string.
rust::Str ObstacleToLockFree();

// Adds the name of each method at one of `addresses`, which are sorted, to `sink`. An address whose method was unloaded with its class
// loader gets no name.
void Symbolize(rust::Slice<const uint64_t> addresses, bridge::SymbolSink& sink);

// Adds the names of all methods of the classes that are linked to `sink`: of those in the boot image, or of all others. From the
// first call on the recorder is told of each class that is linked (bridge::class_linked).
void NameLinkedClasses(bool of_boot_image, bridge::SymbolSink& sink);

// Adds the names of all methods of the class with a Handle at this address to `sink`. The calling thread is Runnable.
void NameMethodsOfClass(size_t klass, bridge::SymbolSink& sink);

// A dead class loader whose classes are not swept yet.
struct UnloadingLoader {
  LinearAlloc* methods;
  ClassTable* classes;
};

// Adds the names of all methods of the UnloadingLoader at this address to `sink`.
void NameMethodsOfLoader(size_t loader, bridge::SymbolSink& sink);

// Writes to ART's log. Severity: 0 debug, 1 info, 2 warning, 3 error.
void Log(uint8_t severity, rust::Str message);

// Values for the header of a trace: the process's name, ART's release, and whether trivial methods are not recorded.
rust::String ProcessName();
rust::String ArtRelease();
bool LeavesOutTrivial();

// The version (longVersionCode) of the app that the framework has bound to the process; 0 if none is bound yet, or it has none.
int64_t AppVersion();

// Three numbers for each image of the boot class path: its address, its length in bytes, and the checksums of its oat file (upper half)
// and of itself. None if the runtime has no boot image.
rust::Vec<uint64_t> BootImages();

// Tells the Java classes that record events which categories any thread records, as bits (event_numbers.h).
void SetEventCategories(uint32_t categories);

// The watchdog of the main looper has these limits from now on, in milliseconds; 0 is off.
void SetMessageLimits(uint64_t slow_ms, uint64_t stuck_ms, uint64_t quiet_ms);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_ART_SERVICES_H_
