// SPDX-License-Identifier: Apache-2.0
// A page of HTML with mistakes, parsed, searched, changed, cleaned and written with jsoup.
// Prints: 120 40 14 true 22

import org.jsoup.Jsoup;
import org.jsoup.nodes.Document;
import org.jsoup.nodes.Element;
import org.jsoup.safety.Safelist;

public class JsoupPage {
    private static final int ARTICLES = 40;

    /** Tags that are not closed, attributes without quotes, entities, a script, a table. */
    private static String page() {
        StringBuilder page = new StringBuilder("<!doctype html><title>News &amp; more</title><body class=main>");
        for (int i = 0; i < ARTICLES; i++) {
            page.append("<article id=a").append(i).append("><h2>Title ").append(i).append(" &eacute;</h2><p class='");
            page.append(i % 3 == 0 ? "lead big" : "text").append("'>Some <b>bold <i>text</b> here</i> &lt;").append(i);
            page.append("&gt;<p>A <a href=/page/").append(i * 7 % 11).append(">link</a><ul><li>one<li>two<li>three</ul>");
            if (i % 10 == 0) {
                page.append("<script>if (a < b) { f(\"</p>\"); }</script><table><tr><td>1<td>2</table>");
            }
            page.append("</article>");
        }
        return page.toString();
    }

    public static void main(String[] args) {
        Document document = Jsoup.parse(page());
        int items = document.select("article > ul li").size();
        int links = document.select("a[href^=/page]").size();
        int leads = document.select("p.lead").size();
        for (Element link : document.select("a")) {
            link.attr("href", "http://example.com" + link.attr("href")).addClass("seen");
        }
        String written = document.outerHtml();
        boolean same = Jsoup.parse(written).outerHtml().equals(written);
        String clean = Jsoup.clean("<p onclick='x()'>Hi <script>y()</script><b>there</b>", Safelist.basic());
        System.out.println(items + " " + links + " " + leads + " " + same + " " + clean.length());
    }
}
