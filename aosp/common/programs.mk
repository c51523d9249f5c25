# SPDX-License-Identifier: Apache-2.0

PRODUCT_PACKAGES += hindsight-perfetto
