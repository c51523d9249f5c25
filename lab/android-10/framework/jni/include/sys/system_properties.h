// SPDX-License-Identifier: Apache-2.0
//
// The limits of bionic's property service that android_os_SystemProperties.cpp asks for; glibc has no such
// header. The properties themselves come from Debian's libcutils.
#pragma once

#define PROP_NAME_MAX 32
#define PROP_VALUE_MAX 92
