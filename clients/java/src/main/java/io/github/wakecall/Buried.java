package io.github.wakecall;

/** Thrown by a handler that can never do a job: it is dead at once. */
public final class Buried extends Exception {
    private static final long serialVersionUID = 1;

    public Buried(String reason) {
        super(reason);
    }
}
