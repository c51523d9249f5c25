# SPDX-License-Identifier: Apache-2.0
#
# Hindsight in a product. Inherited by build/make's base_system.mk, after its last change of PRODUCT_BOOT_JARS.
#
# Tracing is off until a property switches it on (docs/rom.md). In user builds only init and Settings may set one.

PRODUCT_PACKAGES += hindsight hindsightd hindsight-upload
PRODUCT_BOOT_JARS += hindsight

PRODUCT_COPY_FILES += \
    external/hindsight/hindsight.rc:$(TARGET_COPY_OUT_SYSTEM)/etc/init/hindsight.rc

# Programs that not all releases have.
include external/hindsight/programs.mk

# Each release has its own variable for folders of policy.
include external/hindsight/sepolicy.mk
