package io.github.wakecall;

import java.util.List;
import java.util.Map;

/** What cancelling a group did. */
public final class GroupCancelled {
    /** All fields, by their names in the API. */
    public final Map<String, Object> fields;
    /** Deleted jobs. */
    public final long deleted;
    /** They end, and are not retried. */
    public final long running;
    /** Shards that do not answer; they delete their jobs before they are used again, or within 2 s. */
    public final List<String> pending;

    GroupCancelled(Map<String, Object> fields) {
        this.fields = fields;
        deleted = Fields.number(fields, "deleted");
        running = Fields.number(fields, "running");
        pending = Fields.list(fields, "pending", String::valueOf);
    }
}
