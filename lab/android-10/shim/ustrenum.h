// SPDX-License-Identifier: Apache-2.0
//
// Stands for ICU's internal header of this name: a StringEnumeration over a UEnumeration, made of
// public API only.
#pragma once

#include <unicode/strenum.h>
#include <unicode/uenum.h>
#include <unicode/unistr.h>

U_NAMESPACE_BEGIN

class UStringEnumeration : public StringEnumeration {
 public:
  // Takes over `enumeration`, also when `status` says that there is none.
  static UStringEnumeration* fromUEnumeration(UEnumeration* enumeration, UErrorCode& status) {
    if (U_SUCCESS(status) && enumeration != nullptr) {
      return new UStringEnumeration(enumeration);
    }
    uenum_close(enumeration);
    return nullptr;
  }

  explicit UStringEnumeration(UEnumeration* enumeration) : enumeration_(enumeration) {}
  ~UStringEnumeration() override { uenum_close(enumeration_); }

  int32_t count(UErrorCode& status) const override { return uenum_count(enumeration_, &status); }

  const char* next(int32_t* length, UErrorCode& status) override {
    return uenum_next(enumeration_, length, &status);
  }

  const UnicodeString* snext(UErrorCode& status) override {
    int32_t length = 0;
    const UChar* text = uenum_unext(enumeration_, &length, &status);
    if (text == nullptr || U_FAILURE(status)) {
      return nullptr;
    }
    return &current_.setTo(text, length);
  }

  void reset(UErrorCode& status) override { uenum_reset(enumeration_, &status); }

  // Every class needs an identity that no other has: the address of a variable is one.
  UClassID getDynamicClassID() const override {
    static char identity;
    return &identity;
  }

 private:
  UEnumeration* enumeration_;
  UnicodeString current_;
};

U_NAMESPACE_END
