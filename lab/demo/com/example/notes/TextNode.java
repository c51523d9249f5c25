// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

/** A text of one or more lines. */
final class TextNode extends ViewNode {
    private static final int LINE_HEIGHT = 20;

    private String text = "";
    private boolean measured;

    void setText(String newText) {
        if (!text.equals(newText)) {
            text = newText;
            measured = false;
        }
    }

    @Override
    int onMeasure(int availableWidth) {
        if (measured) {
            return height;
        }
        measured = true;
        return LINE_HEIGHT * TextMeasurer.countLines(text, availableWidth);
    }

    @Override
    int draw(int scrollY, int screenHeight) {
        return TextMeasurer.width(text, 0, text.length()) * LINE_HEIGHT;
    }
}
