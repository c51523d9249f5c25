# SPDX-License-Identifier: Apache-2.0
#
# Hindsight in a product. build/make's base_system.mk inherits it, after it has set PRODUCT_BOOT_JARS.
#
# Nothing is traced until a property says so (docs/rom.md), and in user builds nobody but init may set it.

PRODUCT_PACKAGES += hindsight
PRODUCT_BOOT_JARS += hindsight

PRODUCT_COPY_FILES += \
    external/hindsight/hindsight.rc:$(TARGET_COPY_OUT_SYSTEM)/etc/init/hindsight.rc

# What this release's build calls the folders of additional policy.
include external/hindsight/sepolicy.mk
