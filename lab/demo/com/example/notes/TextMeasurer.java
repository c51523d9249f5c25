// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

/** The width of a text in pixels, in a fictitious font, and its line breaks. */
final class TextMeasurer {
    private TextMeasurer() {}

    static int width(String text, int start, int end) {
        int width = 0;
        for (int i = start; i < end; i++) {
            width += advance(text.charAt(i));
        }
        return width;
    }

    static int countLines(String text, int maxWidth) {
        int lines = 1;
        int lineStart = 0;
        for (int space = text.indexOf(' '); space >= 0; space = text.indexOf(' ', space + 1)) {
            if (width(text, lineStart, space) > maxWidth) {
                lines++;
                lineStart = space;
            }
        }
        return lines;
    }

    private static int advance(char c) {
        switch (c) {
            case 'i':
            case 'l':
            case '.':
                return 5;
            case 'm':
            case 'w':
                return 14;
            default:
                return 9;
        }
    }
}
