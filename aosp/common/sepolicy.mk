# SPDX-License-Identifier: Apache-2.0
#
# The SELinux policy, from a folder of our own and not in system/sepolicy: that one is compared with its frozen copy.

BOARD_PLAT_PRIVATE_SEPOLICY_DIR += external/hindsight/sepolicy/private
