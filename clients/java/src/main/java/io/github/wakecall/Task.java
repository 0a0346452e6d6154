package io.github.wakecall;

import java.time.Instant;
import java.util.Map;

/** A task in an answer. */
public final class Task {
    /** All fields, by their names in the API. */
    public final Map<String, Object> fields;
    /** Its id. */
    public final String id;
    /** run, retry, delete, shift or change. */
    public final String action;
    /** queued, running, done, failed, stopped or cancelled. */
    public final String state;
    /** Jobs that matched at the start. */
    public final long matched;
    /** Jobs that were acted on. */
    public final long done;
    /** Jobs that were skipped, by reason. */
    public final Map<String, Long> skipped;
    /** Jobs that could not be acted on. */
    public final long failed;
    /** Why the task failed or stopped, or "". */
    public final String error;
    /** When it was started. */
    public final Instant createdAt;

    Task(Map<String, Object> fields) {
        this.fields = fields;
        id = Fields.text(fields, "id");
        action = Fields.text(fields, "action");
        state = Fields.text(fields, "state");
        matched = Fields.number(fields, "matched");
        done = Fields.number(fields, "done");
        skipped = Fields.numbers(fields, "skipped");
        failed = Fields.number(fields, "failed");
        error = Fields.text(fields, "error");
        createdAt = Fields.time(fields, "created_at");
    }
}
