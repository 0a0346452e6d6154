package io.github.wakecall;

import java.time.Duration;
import java.util.function.Consumer;

/** How a worker works, apart from what {@link Wakecall#work} is told. */
public final class WorkOptions {
    Duration wait = Duration.ofSeconds(5);
    Duration ttr;
    Consumer<WakecallException> failed = e -> { };

    /** How long to wait for a job at once; after a stop, work returns within that time. */
    public WorkOptions wait(Duration d) {
        wait = d;
        return this;
    }

    /** How long a lease lasts unless it is extended; the job's, or its topic's, if not set. */
    public WorkOptions ttr(Duration d) {
        ttr = d;
        return this;
    }

    /** Gets the errors that are repeated, and those of leases that could not be ended. */
    public WorkOptions failed(Consumer<WakecallException> f) {
        failed = f;
        return this;
    }
}
