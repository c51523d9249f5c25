// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Consent;
import dev.hindsight.ConsentException;

import java.io.IOException;

/** Gives the service the commands in its arguments, one after the other, and prints what came of each. */
public final class ConsentTest {
    private final Consent consent;

    private ConsentTest(String socket) {
        consent = new Consent(socket);
    }

    /** The socket, and commands. */
    public static void main(String[] args) {
        ConsentTest test = new ConsentTest(args[0]);
        for (int i = 1; i < args.length; i++) {
            String said;
            try {
                said = test.execute(args[i].split(" "));
            } catch (ConsentException e) {
                said = "refused: " + e.getMessage();
            } catch (IOException e) {
                said = "failed: " + e.getMessage();
            } catch (IllegalArgumentException e) {
                said = "wrong: " + e.getMessage();
            }
            System.out.println(args[i] + ": " + said);
        }
        System.exit(0);
    }

    private String execute(String[] words) throws IOException {
        switch (words[0]) {
            case "read": {
                Consent.State state = consent.read();
                StringBuilder said = new StringBuilder("device " + state.ofDevice() + ", users " + state.ofUsers());
                for (int user : new int[] {0, 10, 11}) {
                    said.append(", ").append(user).append(' ').append(state.level(user));
                }
                return said.append(state.areLost() ? ", lost" : "").toString();
            }
            case "when": {
                long seconds = consent.read().ofDevice().atSeconds();
                return seconds > 1_500_000_000L && seconds <= System.currentTimeMillis() / 1000 ? "plausible" : "at " + seconds;
            }
            case "set": {
                Consent.Level level = Consent.Level.valueOf(words[1]);
                return "" + (words.length == 2 ? consent.set(level) : consent.set(level, Integer.parseInt(words[2])));
            }
            case "withdraw":
                if (words.length == 1) {
                    consent.withdraw();
                } else {
                    consent.withdraw(Integer.parseInt(words[1]));
                }
                return "done";
            case "forget":
                return "" + consent.forget(Integer.parseInt(words[1]));
            case "reports":
                return consent.reports().toString();
            case "preview":
                return consent.preview(Long.parseLong(words[1])).trim();
            default:
                throw new IllegalArgumentException("no command '" + words[0] + "'");
        }
    }
}
