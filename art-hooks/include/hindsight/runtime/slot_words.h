// SPDX-License-Identifier: Apache-2.0
//
// For assembly: the words of slots that trace stubs write and test (trace-format/src/slot.rs; a test of this crate
// compares), and the offsets of the words of a thread that only stubs use (thread_words.h; trace_stubs.cc compares).

#ifndef HINDSIGHT_RUNTIME_SLOT_WORDS_H_
#define HINDSIGHT_RUNTIME_SLOT_WORDS_H_

// Low halves of slots: smaller ones are no method's address; an entry that was taken back; the last slot of FullTime.
#define HINDSIGHT_FIRST_METHOD 0x1000
#define HINDSIGHT_FIRST_METHOD_BITS 12
#define HINDSIGHT_TAKEN_BACK 0xff8
#define HINDSIGHT_FULL_TIME 0x18a

// Distances from ThreadWords::cursor.
#define HINDSIGHT_EPOCH (5 * __SIZEOF_POINTER__ + 32)
#define HINDSIGHT_REWIND_BELOW (5 * __SIZEOF_POINTER__ + 36)
#define HINDSIGHT_TAKEN_BACK_COUNT (5 * __SIZEOF_POINTER__ + 40)
#define HINDSIGHT_REWIND_LOG (5 * __SIZEOF_POINTER__ + 48)

#endif  // HINDSIGHT_RUNTIME_SLOT_WORDS_H_
