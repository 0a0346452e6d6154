package io.github.wakecall;

import java.util.Map;

/** What moving a group did. */
public final class GroupMoved {
    /** All fields, by their names in the API. */
    public final Map<String, Object> fields;
    /** Moved jobs. */
    public final long moved;
    /** Running, dead, or expiring before. */
    public final long skipped;

    GroupMoved(Map<String, Object> fields) {
        this.fields = fields;
        moved = Fields.number(fields, "moved");
        skipped = Fields.number(fields, "skipped");
    }
}
