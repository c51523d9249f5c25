// SPDX-License-Identifier: Apache-2.0
//
// What ART does for Hindsight's control thread. Called from Rust, through the bridge in
// art-hooks/src/bridge.rs; all but Log and NameMethodsOfLoader only on the control thread.

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

// Attaches the calling thread, as a daemon without a Java peer, and marks it as the control thread.
// False if the runtime is shutting down.
bool AttachControlThread();
void DetachControlThread();

// Whether the caller is the control thread (which is never traced).
bool IsControlThread();

// Runs `request` while the thread with this kernel id is at a safepoint: by that thread itself if it
// runs managed code, otherwise on its behalf while it is kept suspended or in native code (an ART
// checkpoint). False if there is no such thread.
bool RunAtSafepoint(uint32_t tid, bridge::SafepointRequest& request);

// Whether the thread with the ThreadWords at this address is Runnable. All that records does it in that state.
bool RunsManagedCode(size_t words);

// Why protocol=lock-free cannot be used, or nothing.
rust::Str ObstacleToLockFree();

// Names the methods at those of `addresses` that are still ArtMethods. A method is not an ArtMethod any
// more if its class loader was unloaded.
void Symbolize(rust::Slice<const uint64_t> addresses, bridge::SymbolSink& sink);

// A class loader that is dead, but whose classes were not swept yet.
struct UnloadingLoader {
  LinearAlloc* methods;
  ClassTable* classes;
};

// Names the methods of the UnloadingLoader at this address.
void NameMethodsOfLoader(size_t loader, bridge::SymbolSink& sink);

// Writes to ART's log. Severity: 0 debug, 1 info, 2 warning, 3 error.
void Log(uint8_t severity, rust::Str message);

// Facts for the header of a trace: the process's name, and ART's release.
rust::String ProcessName();
rust::String ArtRelease();

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_ART_SERVICES_H_
