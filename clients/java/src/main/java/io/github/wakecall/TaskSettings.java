package io.github.wakecall;

import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;

/** A task to start: one action on all jobs that match a filter. */
public final class TaskSettings extends Members<TaskSettings> {
    String idempotencyKey;
    private final Map<String, Object> filter = new LinkedHashMap<>();
    private final Map<String, Object> change = new LinkedHashMap<>();

    /**
     * A task on jobs of a topic.
     *
     * @param action run, retry, delete, shift or change
     * @param topic  a name or a pattern
     */
    public TaskSettings(String action, String topic) {
        filter.put("topic", topic);
        set("action", action).set("filter", filter);
    }

    /** Sets any member of the filter, by its name in the API: state, id_prefix, error, due_before … */
    public TaskSettings filter(String member, Object value) {
        filter.put(member, value);
        return this;
    }

    /** Of shift; it may be negative. */
    public TaskSettings by(Duration d) {
        return set("by", d);
    }

    /** Jobs a second. */
    public TaskSettings rate(double n) {
        return set("rate", n);
    }

    /** Of retry: the share of failures above which it stops. */
    public TaskSettings stopAbove(double share) {
        return set("stop_above", share);
    }

    /** Only counts the jobs. */
    public TaskSettings dryRun() {
        return set("dry_run", true);
    }

    /** Of change: the new due time. */
    public TaskSettings changeDueAt(Instant t) {
        change.put("due_at", t);
        return set("change", change);
    }

    /** Of change: the new priority. */
    public TaskSettings changePriority(String priority) {
        change.put("priority", priority);
        return set("change", change);
    }

    /** Calls with the same key start one task. Without one, the client makes one for its own retries. */
    public TaskSettings idempotencyKey(String key) {
        idempotencyKey = key;
        return this;
    }
}
