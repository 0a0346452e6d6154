package io.github.wakecall;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** A job that this worker has reserved. */
public final class LeasedJob {
    /** All fields but the body, by their names in the API. */
    public final Map<String, Object> fields;
    /** Ends or extends the lease. */
    public final String lease;
    /** When the lease expires. */
    public final Instant leasedUntil;
    /** How long the lease lasts from now. */
    public final Duration ttr;
    /** Its topic. */
    public final String topic;
    /** Its id. */
    public final String id;
    /** high, normal or low. */
    public final String priority;
    /** Counted from 1. */
    public final long attempt;
    /** 0: no limit. */
    public final long maxAttempts;
    /** When it was due. */
    public final Instant dueAt;
    /** When it was pushed. */
    public final Instant createdAt;
    /** When it expires, or null. */
    public final Instant expiresAt;
    /** Of the body. */
    public final String contentType;
    /** The job's own. */
    public final Map<String, String> headers;
    /** The W3C trace context of the push, or "". */
    public final String traceparent;
    private final Body body;

    LeasedJob(Map<String, Object> fields) {
        this.fields = fields;
        lease = Fields.text(fields, "lease");
        leasedUntil = Fields.time(fields, "leased_until");
        ttr = Fields.duration(fields, "ttr");
        topic = Fields.text(fields, "topic");
        id = Fields.text(fields, "id");
        priority = Fields.text(fields, "priority");
        attempt = Fields.number(fields, "attempt");
        maxAttempts = Fields.number(fields, "max_attempts");
        dueAt = Fields.time(fields, "due_at");
        createdAt = Fields.time(fields, "created_at");
        expiresAt = Fields.time(fields, "expires_at");
        contentType = Fields.text(fields, "content_type");
        headers = Fields.texts(fields, "headers");
        traceparent = Fields.text(fields, "traceparent");
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
}
