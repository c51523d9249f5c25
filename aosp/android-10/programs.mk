# SPDX-License-Identifier: Apache-2.0
#
# No hindsight-perfetto: traced of Android 10 takes no memory that a producer has made, and the program has no other way yet.
