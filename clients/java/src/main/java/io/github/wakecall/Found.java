package io.github.wakecall;

import java.util.List;
import java.util.Map;

/** What a search found. */
public final class Found {
    /** All fields, by their names in the API. */
    public final Map<String, Object> fields;
    /** What the shards have of the id: topic, id, state. */
    public final List<Map<String, Object>> stored;
    /** What the journals say: topic, id, created_at, ended, events. */
    public final List<Map<String, Object>> jobs;
    /** How far the journal of each host was read, and why one was not. */
    public final List<Map<String, Object>> hosts;

    Found(Map<String, Object> fields) {
        this.fields = fields;
        stored = Fields.list(fields, "stored", Fields::object);
        jobs = Fields.list(fields, "jobs", Fields::object);
        hosts = Fields.list(fields, "hosts", Fields::object);
    }
}
