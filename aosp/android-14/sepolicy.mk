# SPDX-License-Identifier: Apache-2.0
#
# The SELinux policy, from a folder of our own. Android 14's build stops at BOARD_PLAT_PRIVATE_SEPOLICY_DIR.

SYSTEM_EXT_PRIVATE_SEPOLICY_DIRS += external/hindsight/sepolicy/private
