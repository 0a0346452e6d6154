package io.github.wakecall;

/** What became of one job of a batch. */
public final class PushResult {
    /** The job, or null if it was refused. */
    public final Job job;
    /** Why it was refused, or null. */
    public final ApiException error;

    PushResult(Job job, ApiException error) {
        this.job = job;
        this.error = error;
    }
}
