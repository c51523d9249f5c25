// SPDX-License-Identifier: Apache-2.0
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER hindsight_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./compare_lttng.h"
#if !defined(COMPARE_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define COMPARE_LTTNG_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(hindsight_bench, entry, LTTNG_UST_TP_ARGS(int, function),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, function, function)))
LTTNG_UST_TRACEPOINT_EVENT(hindsight_bench, exit, LTTNG_UST_TP_ARGS(int, function),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, function, function)))
#endif
#include <lttng/tracepoint-event.h>
