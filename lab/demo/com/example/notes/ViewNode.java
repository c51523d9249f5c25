// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

import java.util.ArrayList;
import java.util.List;

/** A part of the screen; measured and laid out from the top down, as Android's views are. */
class ViewNode {
    final List<ViewNode> children = new ArrayList<>();
    int top;
    int width;
    int height;

    final void add(ViewNode child) {
        children.add(child);
    }

    final void measure(int availableWidth) {
        width = availableWidth;
        height = onMeasure(availableWidth);
    }

    /** Returns the height in pixels. */
    int onMeasure(int availableWidth) {
        int sum = 0;
        for (ViewNode child : children) {
            child.measure(availableWidth);
            sum += child.height;
        }
        return sum;
    }

    final void layout(int newTop) {
        top = newTop;
        int childTop = newTop;
        for (ViewNode child : children) {
            child.layout(childTop);
            childTop += child.height;
        }
    }

    /** Returns how many pixels were drawn. */
    int draw(int scrollY, int screenHeight) {
        if (top + height < scrollY || top > scrollY + screenHeight) {
            return 0;
        }
        int drawn = 0;
        for (ViewNode child : children) {
            drawn += child.draw(scrollY, screenHeight);
        }
        return drawn;
    }
}
