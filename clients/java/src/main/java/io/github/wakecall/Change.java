package io.github.wakecall;

import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;

/** Changes of a delayed or ready job. */
public final class Change extends Members<Change> {
    String etag;

    /** Due so long from now. */
    public Change delay(Duration d) {
        return set("delay", d);
    }

    /** Due at a time. */
    public Change dueAt(Instant t) {
        return set("due_at", t);
    }

    /** Due at a local time: after the gap if clocks skip it, the first one if it is repeated. */
    public Change dueAt(LocalDateTime t, ZoneId zone) {
        return set("due_at", t.toString()).set("time_zone", zone.getId());
    }

    /** high, normal or low. */
    public Change priority(String priority) {
        return set("priority", priority);
    }

    /** Called instead of the topic's callback_url; null: the topic's. */
    public Change url(String url) {
        return set("url", url);
    }

    /** Any value that {@link Json#write} accepts. */
    public Change body(Object value) {
        return withBody(Json.write(value));
    }

    /** A body that is JSON, sent byte for byte. */
    public Change json(String json) {
        return withBody(json);
    }

    /** Changes the job only if it has not changed since it was read with this etag. */
    public Change ifMatch(String etag) {
        this.etag = etag;
        return this;
    }
}
