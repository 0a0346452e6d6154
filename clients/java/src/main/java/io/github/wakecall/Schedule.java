package io.github.wakecall;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/** A schedule in an answer. */
public final class Schedule {
    /** All fields but the body, by their names in the API. */
    public final Map<String, Object> fields;
    /** Its name. */
    public final String name;
    /** The topic of its jobs. */
    public final String topic;
    /** active or paused. */
    public final String state;
    /** When a pause ends by itself, or null. */
    public final Instant pausedUntil;
    /** The next occurrences. */
    public final List<Instant> next;
    /** The last jobs, newest first. */
    public final List<Occurrence> last;
    /** How many occurrences were left out, by reason. */
    public final Map<String, Long> leftOut;
    private final Body body;

    Schedule(Map<String, Object> fields) {
        this.fields = fields;
        name = Fields.text(fields, "name");
        topic = Fields.text(fields, "topic");
        state = Fields.text(fields, "state");
        pausedUntil = Fields.time(fields, "paused_until");
        next = Fields.list(fields, "next", t -> Instant.parse((String) t));
        last = Fields.list(fields, "last", Occurrence::new);
        leftOut = Fields.numbers(fields, "left_out");
        body = new Body(fields);
    }

    /** Decodes the body of its jobs, or throws an UnreadableException. */
    public Object body() {
        return body.decode();
    }

    /** A job that a schedule has pushed. */
    public static final class Occurrence {
        /** Of the job. */
        public final String id;
        /** The time for which it was scheduled. */
        public final Instant scheduledFor;
        /** delayed, ready, done, dead, expired, deleted or replaced. */
        public final String state;

        private Occurrence(Object occurrence) {
            Map<String, Object> fields = Fields.object(occurrence);
            id = Fields.text(fields, "id");
            scheduledFor = Fields.time(fields, "scheduled_for");
            state = Fields.text(fields, "state");
        }
    }
}
