package io.github.wakecall;

/** Handles a job of a pull topic. */
@FunctionalInterface
public interface Handler {
    /** Does the job, and returns its result, any value that {@link Json#write} accepts; null: none. */
    Object handle(LeasedJob job) throws Exception;
}
