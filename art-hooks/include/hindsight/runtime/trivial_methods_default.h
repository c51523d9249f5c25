// SPDX-License-Identifier: Apache-2.0
//
// Whether a build leaves out trivial methods (trivial_methods.h), for C++ and assembly.

#ifndef HINDSIGHT_RUNTIME_TRIVIAL_METHODS_DEFAULT_H_
#define HINDSIGHT_RUNTIME_TRIVIAL_METHODS_DEFAULT_H_

#include "hindsight/runtime/lab_build.h"

// 1: they have no trace points. 0: all methods have trace points.
#ifndef HINDSIGHT_LEAVES_OUT_TRIVIAL_METHODS
#define HINDSIGHT_LEAVES_OUT_TRIVIAL_METHODS 0
#endif

// Nterp asks for each method whether it is left out. Where none can be, it does not ask. In the lab's build the environment
// decides.
#if HINDSIGHT_LEAVES_OUT_TRIVIAL_METHODS || defined(HINDSIGHT_LAB)
#define HINDSIGHT_NTERP_ASKS
#endif

#endif  // HINDSIGHT_RUNTIME_TRIVIAL_METHODS_DEFAULT_H_
