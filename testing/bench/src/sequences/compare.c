// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of tracing the entry and the exit of an empty function, with one of: TRACE_CYG (the
// handlers of -finstrument-functions), TRACE_XRAY (LLVM XRay with the handler below), TRACE_LTTNG; or with the
// compiler's own calls (-pg).
//
// Arguments: rounds, calls a round. Prints a line a round, with the nanoseconds of a call of three functions: without
// tracing; reading the timer twice with registers saved (the floor); traced.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef TRACE_XRAY
#include <xray/xray_interface.h>
#endif
#ifdef TRACE_LTTNG
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "compare_lttng.h"
#endif

#ifdef __clang__
#define PLAIN __attribute__((noinline, no_instrument_function, xray_never_instrument))
#define TRACED __attribute__((noinline, xray_always_instrument))
#else
#define PLAIN __attribute__((noinline, no_instrument_function))
#define TRACED __attribute__((noinline))
#endif

// The least work of any tracer: stores the time's low half and the function into a ring.
static uint64_t ring[1 << 20];
static uint64_t next;

PLAIN static void record(uint32_t function) {
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  ring[next++ & ((1 << 20) - 1)] = (uint64_t)low << 32 | function;
}

#ifdef TRACE_CYG
PLAIN void __cyg_profile_func_enter(void* function, void* site) {
  (void)site;
  record((uint32_t)(uintptr_t)function);
}
PLAIN void __cyg_profile_func_exit(void* function, void* site) {
  (void)function, (void)site;
  record(0);
}
#endif

#ifdef TRACE_XRAY
PLAIN static void on_sled(int32_t function, XRayEntryType type) {
  record(type == XRayEntryType::ENTRY ? (uint32_t)function : 0);
}
#endif

PLAIN static void empty(void) { __asm__ volatile(""); }

PLAIN static void timed(void) {
  __asm__ volatile(
      "mov %%rdx, %%r10\n rdtsc\n mov %%r10, %%rdx\n"
      "mov %%rax, %%r10\n rdtsc\n mov %%r10, %%rax\n" ::
          : "rax", "rdx", "r10");
}

TRACED void traced(void) {
#ifdef TRACE_LTTNG
  lttng_ust_tracepoint(hindsight_bench, entry, 1);
#endif
  __asm__ volatile("");
#ifdef TRACE_LTTNG
  lttng_ust_tracepoint(hindsight_bench, exit, 1);
#endif
}

PLAIN static double nanoseconds(void (*function)(void), long calls) {
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (long i = 0; i < calls; i++) {
    __asm__ volatile("" : "+r"(function));
    function();
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / calls;
}

PLAIN int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s ROUNDS CALLS\n", argv[0]);
    return 2;
  }
  long rounds = atol(argv[1]), calls = atol(argv[2]);
#ifdef TRACE_XRAY
  if (!__xray_set_handler(on_sled) || __xray_patch() != XRayPatchingStatus::SUCCESS) {
    fprintf(stderr, "XRay does not patch\n");
    return 1;
  }
#endif
  nanoseconds(traced, calls);
  for (long round = 0; round < rounds; round++) {
    double base = nanoseconds(empty, calls);
    double floor = nanoseconds(timed, calls);
    double cost = nanoseconds(traced, calls);
    printf("%f %f %f\n", base, floor, cost);
  }
  return 0;
}
