// SPDX-License-Identifier: Apache-2.0
//
// The names of AOSP's external/fdlibm (ieee_sin, …) for the functions of OpenJDK's libfdlibm
// (jsin, …). jcbrt, jhypot and jpow are in a file that the lab generates: OpenJDK has them in Java.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#define FDLIBM_UNARY(name)                     \
  double j##name(double x);                    \
  static inline double ieee_##name(double x) { \
    return j##name(x);                         \
  }

#define FDLIBM_BINARY(name)                              \
  double j##name(double x, double y);                    \
  static inline double ieee_##name(double x, double y) { \
    return j##name(x, y);                                \
  }

FDLIBM_UNARY(acos)
FDLIBM_UNARY(asin)
FDLIBM_UNARY(atan)
FDLIBM_UNARY(cbrt)
FDLIBM_UNARY(cos)
FDLIBM_UNARY(cosh)
FDLIBM_UNARY(exp)
FDLIBM_UNARY(expm1)
FDLIBM_UNARY(log)
FDLIBM_UNARY(log10)
FDLIBM_UNARY(log1p)
FDLIBM_UNARY(sin)
FDLIBM_UNARY(sinh)
FDLIBM_UNARY(sqrt)
FDLIBM_UNARY(tan)
FDLIBM_UNARY(tanh)
FDLIBM_BINARY(atan2)
FDLIBM_BINARY(hypot)
FDLIBM_BINARY(pow)
FDLIBM_BINARY(remainder)

#undef FDLIBM_UNARY
#undef FDLIBM_BINARY

#ifdef __cplusplus
}
#endif
