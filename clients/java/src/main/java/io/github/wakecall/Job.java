package io.github.wakecall;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/** A job in an answer. */
public final class Job {
    /** All fields but the body, by their names in the API. */
    public final Map<String, Object> fields;
    /** Its topic. */
    public final String topic;
    /** Its id. */
    public final String id;
    /** delayed, ready, running, dead, done or spooled. */
    public final String state;
    /** When it is due. */
    public final Instant dueAt;
    /** high, normal or low. */
    public final String priority;
    /** Attempts made so far. */
    public final long attempts;
    /** When it was pushed. */
    public final Instant createdAt;
    /** Its group, or "". */
    public final String group;
    /** Its key, or "". */
    public final String key;
    /** Its own URL, or "". */
    public final String url;
    /** When it is retried, or null. */
    public final Instant nextAttemptAt;
    /** Until when it is reserved, or null. */
    public final Instant leasedUntil;
    /** When it expires, or null. */
    public final Instant expiresAt;
    /** Why it is dead, or "". */
    public final String deadReason;
    /** Of a push: the id already existed. */
    public final boolean duplicate;
    /** Of a push that waited, and for two minutes of get: what the worker or the endpoint answered. */
    public final Object result;
    /** Of get: the last 20 attempts, oldest first. */
    public final List<Attempt> history;
    /** For a change or deletion that requires that the job is the same; of get, change and run. */
    public final String etag;
    private final Body body;

    Job(Map<String, Object> fields) {
        this.fields = fields;
        topic = Fields.text(fields, "topic");
        id = Fields.text(fields, "id");
        state = Fields.text(fields, "state");
        dueAt = Fields.time(fields, "due_at");
        priority = Fields.text(fields, "priority");
        attempts = Fields.number(fields, "attempts");
        createdAt = Fields.time(fields, "created_at");
        group = Fields.text(fields, "group");
        key = Fields.text(fields, "key");
        url = Fields.text(fields, "url");
        nextAttemptAt = Fields.time(fields, "next_attempt_at");
        leasedUntil = Fields.time(fields, "leased_until");
        expiresAt = Fields.time(fields, "expires_at");
        deadReason = Fields.text(fields, "dead_reason");
        duplicate = Fields.flag(fields, "duplicate");
        result = fields.get("result");
        history = Fields.list(fields, "history", Attempt::new);
        etag = Fields.text(fields, "etag");
        body = new Body(fields);
    }

    /** Decodes the body, or throws an UnreadableException. A body that is not JSON: a text, or null if it is binary. */
    public Object body() {
        return body.decode();
    }

    /** The bytes of the body: of JSON, its text; null if the answer has no body. */
    public byte[] bytes() {
        return body.bytes();
    }

    /** One call of a job. */
    public static final class Attempt {
        /** Counted from 1. */
        public final long n;
        /** When it started. */
        public final Instant startedAt;
        /** The endpoint's status; 0: there was no answer. */
        public final long status;
        /** Why it failed, or "". */
        public final String error;

        private Attempt(Object attempt) {
            Map<String, Object> fields = Fields.object(attempt);
            n = Fields.number(fields, "n");
            startedAt = Fields.time(fields, "started_at");
            status = Fields.number(fields, "status");
            error = Fields.text(fields, "error");
        }
    }
}
