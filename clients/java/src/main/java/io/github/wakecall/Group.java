package io.github.wakecall;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/** A group. */
public final class Group {
    /** All fields, by their names in the API. */
    public final Map<String, Object> fields;
    /** Its jobs that are delayed. */
    public final long delayed;
    /** Its jobs that are ready. */
    public final long ready;
    /** Its jobs that run. */
    public final long running;
    /** Its jobs that are dead. */
    public final long dead;
    /** Until then pushes into it are refused; null: it is not closed. */
    public final Instant closedUntil;
    /** The first ones by due time. */
    public final List<Job> jobs;

    Group(Map<String, Object> fields) {
        this.fields = fields;
        delayed = Fields.number(Fields.object(fields, "counts"), "delayed");
        ready = Fields.number(Fields.object(fields, "counts"), "ready");
        running = Fields.number(Fields.object(fields, "counts"), "running");
        dead = Fields.number(Fields.object(fields, "counts"), "dead");
        closedUntil = Fields.time(fields, "closed_until");
        jobs = Fields.list(fields, "jobs", job -> new Job(Fields.object(job)));
    }
}
