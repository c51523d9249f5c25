// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;

import org.json.JSONException;
import org.json.JSONObject;

/**
 * What the users of the device agree to be recorded, as the system service hindsightd keeps it. For the app of the system that asks
 * them, such as Settings: it needs the right to give the service commands, which other apps do not have. It works the same on
 * builds that are not debuggable.
 *
 * <p>Each method sends one command to the service, and blocks until the service has answered, or for 150 s; call
 * it from a thread that no other thread waits for. Methods throw
 *
 * <ul>
 *   <li>{@link ConsentException} if the service refuses the command: with the service's reason and remedy;
 *   <li>{@link IOException} if there is no service, it does not serve this app, or it does not answer. A choice may hold then all the
 *       same: {@link #read} tells.
 * </ul>
 */
public final class Consent {
    /** Where init puts the service's socket for commands. */
    public static final String SOCKET = ServiceCommands.SOCKET;

    /** How much a user agrees to. Each level has all that the one before it has. */
    public enum Level {
        /** Nothing is recorded. */
        NONE("none"),
        /** Numbers, and names of the platform's classes and methods; statistics of them may leave the device. */
        SUMMARY("summary"),
        /** Also names of the app's classes and methods, and the app's name. */
        SIGNATURES("signatures"),
        /** Also names of threads, marks, and reasons of reports; reports may leave the device. */
        FULL("full");

        private final String word;

        Level(String word) {
            this.word = word;
        }

        private static Level of(String word) throws JSONException {
            for (Level level : values()) {
                if (level.word.equals(word)) {
                    return level;
                }
            }
            throw new JSONException("the level '" + word + "' is not known here");
        }
    }

    /** What somebody has chosen. */
    public static final class Choice {
        private final Level level;
        private final long by;
        private final long atSeconds;

        private Choice(JSONObject choice) throws JSONException {
            level = Level.of(choice.getString("level"));
            by = choice.getLong("by");
            atSeconds = choice.getLong("at_s");
        }

        /** The level that was chosen. The policy of the device may allow less: {@link State#level}. */
        public Level level() {
            return level;
        }

        /** User id of the program that has told the service, by the kernel's account. */
        public long byUid() {
            return by;
        }

        /** When, in seconds since 1970, by the clock of the device at that time. */
        public long atSeconds() {
            return atSeconds;
        }

        @Override
        public String toString() {
            return level + " by " + by;
        }
    }

    /** All choices, and what they come to. */
    public static final class State {
        private final Choice ofDevice;
        private final SortedMap<Integer, Choice> ofUsers = new TreeMap<>();
        private final boolean areLost;
        private final SortedMap<Integer, Level> levels = new TreeMap<>();
        private final Level levelOfOthers;

        private State(JSONObject state) throws JSONException {
            JSONObject choices = state.getJSONObject("choices");
            ofDevice = choices.isNull("device") ? null : new Choice(choices.getJSONObject("device"));
            JSONObject users = choices.getJSONObject("users");
            for (Iterator<String> names = users.keys(); names.hasNext(); ) {
                String name = names.next();
                ofUsers.put(number(name), new Choice(users.getJSONObject(name)));
            }
            areLost = choices.getBoolean("are_lost");
            JSONObject each = state.getJSONObject("levels");
            for (Iterator<String> names = each.keys(); names.hasNext(); ) {
                String name = names.next();
                levels.put(number(name), Level.of(each.getString(name)));
            }
            levelOfOthers = Level.of(state.getString("others"));
        }

        private static int number(String user) throws JSONException {
            try {
                return Integer.parseInt(user);
            } catch (NumberFormatException e) {
                throw new JSONException("'" + user + "' is no number of a user");
            }
        }

        /** The choice for all users without a choice of their own; null if nobody has chosen. */
        public Choice ofDevice() {
            return ofDevice;
        }

        /** The choices of single Android users, by their numbers; not to be changed. */
        public SortedMap<Integer, Choice> ofUsers() {
            return Collections.unmodifiableSortedMap(ofUsers);
        }

        /** The saved choices were damaged or lost. Nothing is recorded of users without a choice since then: ask again. */
        public boolean areLost() {
            return areLost;
        }

        /** The level that holds for an Android user: of choice and policy the lower one. A policy may have exceptions for single apps. */
        public Level level(int user) {
            Level level = levels.get(user);
            return level == null ? levelOfOthers : level;
        }
    }

    private final ServiceCommands service;

    /** The service of the device. */
    public Consent() {
        this(SOCKET);
    }

    /** The service whose socket for commands is at this path. */
    public Consent(String socket) {
        service = new ServiceCommands(socket);
    }

    /** What was chosen, and what follows from it. */
    public State read() throws IOException {
        try {
            return new State(new JSONObject(line("consent show")));
        } catch (JSONException e) {
            throw notUnderstood(e);
        }
    }

    /**
     * A choice for all users without a choice of their own. One for less holds at once, and removes reports that are not allowed any
     * more before this returns.
     *
     * @return the level that holds for the device's first user (0) now: the policy may allow less than was chosen
     */
    public Level set(Level level) throws IOException {
        return choose("set " + level.word);
    }

    /**
     * A choice of one Android user, who has it instead of the one for the device.
     *
     * @return the level that holds for this user now
     */
    public Level set(Level level, int user) throws IOException {
        return choose("set " + level.word + " user " + checked(user));
    }

    /** Nothing is recorded of anybody from now on, and all reports are removed. Choices of single users end. */
    public void withdraw() throws IOException {
        choose("withdraw");
    }

    /** Nothing is recorded of this Android user from now on, and the user's reports are removed. */
    public void withdraw(int user) throws IOException {
        choose("withdraw user " + checked(user));
    }

    /**
     * This Android user was removed: the choice and the reports of its processes are gone when this returns. Android may give the number
     * to another user later, for whom nobody has chosen. To be called for Intent.ACTION_USER_REMOVED.
     *
     * @return the level that holds for the next user of this number
     */
    public Level forget(int user) throws IOException {
        return choose("forget user " + checked(user));
    }

    /** Numbers of all reports on the device, oldest first; for {@link #preview}. */
    public List<Long> reports() throws IOException {
        List<Long> reports = new ArrayList<>();
        for (String line : service.ask("reports").split("\n")) {
            if (line.isEmpty()) {
                continue;
            }
            try {
                reports.add(new JSONObject(line).getLong("report"));
            } catch (JSONException e) {
                throw notUnderstood(e);
            }
        }
        return reports;
    }

    /**
     * What may leave the device of a report, exactly as it would leave, as lines of text; at the highest level also a line with the hash
     * of its trace.
     */
    public String preview(long report) throws IOException {
        return service.ask("preview " + report);
    }

    private Level choose(String choice) throws IOException {
        try {
            return Level.of(new JSONObject(line("consent " + choice)).getString("level"));
        } catch (JSONException e) {
            throw notUnderstood(e);
        }
    }

    private static int checked(int user) {
        if (user < 0) {
            throw new IllegalArgumentException("an Android user has a number from 0 on, not " + user);
        }
        return user;
    }

    /** The only line of an answer. */
    private String line(String command) throws IOException {
        return service.ask(command).trim();
    }

    private IOException notUnderstood(JSONException e) {
        return new IOException(service.socket + ": the answer is not understood: " + e.getMessage()
                + "; are hindsightd and hindsight.jar of the same ROM?", e);
    }
}
