# SPDX-License-Identifier: Apache-2.0
#
# The SELinux policy has a folder of its own: system/sepolicy must stay equal to its frozen copy.
#
# build/make reads the makefiles of a product twice where artifact path requirements apply. A folder that is
# named twice is compiled twice, and its second declaration of a type is an error.
ifeq (,$(filter external/hindsight/sepolicy/private,$(BOARD_PLAT_PRIVATE_SEPOLICY_DIR)))
BOARD_PLAT_PRIVATE_SEPOLICY_DIR += external/hindsight/sepolicy/private
endif
