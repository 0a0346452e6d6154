package io.github.wakecall;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/** What a backfill did; of a dry run, only the occurrences. */
public final class Backfilled {
    /** All fields, by their names in the API. */
    public final Map<String, Object> fields;
    /** All of the period. */
    public final List<Instant> occurrences;
    /** Pushed jobs. */
    public final long pushed;
    /** Jobs that existed already. */
    public final long existing;
    /** Because of the overlap. */
    public final long leftOut;

    Backfilled(Map<String, Object> fields) {
        this.fields = fields;
        occurrences = Fields.list(fields, "occurrences", t -> Instant.parse((String) t));
        pushed = Fields.number(fields, "pushed");
        existing = Fields.number(fields, "existing");
        leftOut = Fields.number(fields, "left_out");
    }
}
