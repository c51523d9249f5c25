// SPDX-License-Identifier: Apache-2.0
// XML parsed, changed and written with kXML.
// Prints: 181 7506 3

import java.io.StringReader;
import java.io.StringWriter;
import org.kxml2.io.KXmlParser;
import org.kxml2.io.KXmlSerializer;
import org.kxml2.kdom.Document;
import org.kxml2.kdom.Element;
import org.kxml2.kdom.Node;
import org.xmlpull.v1.XmlPullParser;
import org.xmlpull.v1.XmlPullParserException;

public class KxmlDocument {
    static int visit(Element element, int depth) {
        element.setAttribute(null, "depth", Integer.toString(depth));
        int count = 1;
        for (int i = 0; i < element.getChildCount(); i++) {
            if (element.getType(i) == Node.ELEMENT) {
                count += visit((Element) element.getChild(i), depth + 1);
            }
        }
        return count;
    }

    public static void main(String[] args) throws Exception {
        StringBuilder text = new StringBuilder("<?xml version='1.0'?><!DOCTYPE list><list xmlns:p='urn:p'>");
        for (int i = 0; i < 60; i++) {
            text.append("<p:item id='").append(i).append("'>a &lt; b &amp; &#233;<b><![CDATA[<").append(i % 7)
                    .append(">]]></b><!-- comment --><empty/></p:item>\n");
        }
        text.append("</list>");
        KXmlParser parser = new KXmlParser();
        parser.setFeature(XmlPullParser.FEATURE_PROCESS_NAMESPACES, true);
        parser.setInput(new StringReader(text.toString()));
        Document document = new Document();
        document.parse(parser);
        int count = visit(document.getRootElement(), 0);
        StringWriter written = new StringWriter();
        KXmlSerializer serializer = new KXmlSerializer();
        serializer.setOutput(written);
        document.write(serializer);
        serializer.flush();
        int failed = 0;
        for (String bad : new String[] {"<a><b></a>", "<a", "<a>&nothing;</a>"}) {
            try {
                KXmlParser other = new KXmlParser();
                other.setInput(new StringReader(bad));
                while (other.next() != XmlPullParser.END_DOCUMENT) {
                    other.getText();
                }
            } catch (XmlPullParserException | java.io.IOException | RuntimeException e) {
                failed++;
            }
        }
        System.out.println(count + " " + written.toString().length() + " " + failed);
    }
}
