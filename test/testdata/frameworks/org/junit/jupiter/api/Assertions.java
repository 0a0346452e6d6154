package org.junit.jupiter.api;

import java.util.Objects;

/** Those of JUnit's that docs/guides/testing.md uses. */
public final class Assertions {
    private Assertions() {}

    public static void assertTrue(boolean condition) {
        assertEquals(true, condition);
    }

    public static void assertEquals(Object expected, Object actual) {
        assertEquals(expected, actual, "");
    }

    public static void assertEquals(Object expected, Object actual, String message) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual + " " + message);
        }
    }
}
