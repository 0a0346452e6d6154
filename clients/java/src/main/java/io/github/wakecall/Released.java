package io.github.wakecall;

import java.time.Duration;

/** Thrown by a handler that cannot do a job now: it is ready again after a delay; the attempt is not counted. */
public final class Released extends Exception {
    private static final long serialVersionUID = 1;

    /** Until the job is ready again. */
    public final Duration delay;

    public Released(Duration delay) {
        super("released for " + delay);
        this.delay = delay;
    }
}
