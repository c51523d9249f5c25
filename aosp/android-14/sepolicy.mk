# SPDX-License-Identifier: Apache-2.0
#
# The SELinux policy has a folder of its own, as part of system_ext's: Android 14 rejects
# BOARD_PLAT_PRIVATE_SEPOLICY_DIR.
#
# build/make reads the makefiles of a product twice where artifact path requirements apply. A folder that is
# named twice is compiled twice, and its second declaration of a type is an error.
ifeq (,$(filter external/hindsight/sepolicy/private,$(SYSTEM_EXT_PRIVATE_SEPOLICY_DIRS)))
SYSTEM_EXT_PRIVATE_SEPOLICY_DIRS += external/hindsight/sepolicy/private
endif
