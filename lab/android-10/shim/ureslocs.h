// SPDX-License-Identifier: Apache-2.0
//
// Stands for ICU's internal header of this name: the names of the resource trees that libcore
// opens.
#pragma once

#include <unicode/udata.h>

#define LAB_ICU_TREE(name) U_ICUDATA_NAME "-" name

#define U_ICUDATA_CURR LAB_ICU_TREE("curr")
#define U_ICUDATA_LANG LAB_ICU_TREE("lang")
#define U_ICUDATA_REGION LAB_ICU_TREE("region")
#define U_ICUDATA_UNIT LAB_ICU_TREE("unit")
#define U_ICUDATA_ZONE LAB_ICU_TREE("zone")
