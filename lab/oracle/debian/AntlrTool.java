// SPDX-License-Identifier: Apache-2.0
// ANTLR reads a grammar, analyses it and generates a lexer and a parser.
// Prints: 0 7683 9361

import antlr.Tool;
import java.io.File;
import java.io.FileWriter;
import java.io.Writer;

public class AntlrTool {
    private static final String GRAMMAR = String.join("\n",
            "class P extends Parser;",
            "options { k = 2; buildAST = true; }",
            "program : (statement)* EOF ;",
            "statement : ID ASSIGN^ expression SEMI! | \"print\"^ expression SEMI! ;",
            "expression : term ((PLUS^ | MINUS^) term)* ;",
            "term : factor ((STAR^ | SLASH^) factor)* ;",
            "factor : NUMBER | ID | LPAREN! expression RPAREN! ;",
            "class L extends Lexer;",
            "WS : (' ' | '\\t' | '\\n' { newline(); }) { $setType(Token.SKIP); } ;",
            "ID : ('a'..'z')+ ; NUMBER : ('0'..'9')+ ;",
            "ASSIGN : '=' ; SEMI : ';' ; PLUS : '+' ; MINUS : '-' ; STAR : '*' ; SLASH : '/' ;",
            "LPAREN : '(' ; RPAREN : ')' ;");

    public static void main(String[] args) throws Exception {
        File grammar = new File("grammar.g");
        try (Writer writer = new FileWriter(grammar)) {
            writer.write(GRAMMAR);
        }
        int result = new Tool().doEverything(new String[] {"-o", ".", grammar.getPath()});
        System.out.println(result + " " + new File("P.java").length() + " " + new File("L.java").length());
    }
}
