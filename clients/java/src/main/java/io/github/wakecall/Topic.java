package io.github.wakecall;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** A topic in an answer. Its secrets are never shown. */
public final class Topic {
    /** All fields, by their names in the API. */
    public final Map<String, Object> fields;
    /** Its name. */
    public final String name;
    /** push or pull. */
    public final String delivery;
    /** What is called when a job is due. */
    public final String callbackUrl;
    /** active, paused or offline. */
    public final String state;
    /** Why it is paused or offline, or "". */
    public final String pauseReason;
    /** When its pause ends by itself, or null. */
    public final Instant pausedUntil;
    /** Of pushes that set none. */
    public final Duration delay;
    /** How long an attempt may take. */
    public final Duration ttr;
    /** high, normal or low. */
    public final String priority;
    /** Then a job is dead. */
    public final long maxAttempts;
    /** Who is responsible for it. */
    public final String owner;
    /** When it was created. */
    public final Instant createdAt;
    /** When it was changed. */
    public final Instant updatedAt;
    /** For a change that requires that the topic is the same. */
    public final String etag;

    Topic(Map<String, Object> fields) {
        this.fields = fields;
        name = Fields.text(fields, "name");
        delivery = Fields.text(fields, "delivery");
        callbackUrl = Fields.text(fields, "callback_url");
        state = Fields.text(fields, "state");
        pauseReason = Fields.text(fields, "pause_reason");
        pausedUntil = Fields.time(fields, "paused_until");
        delay = Fields.duration(fields, "delay");
        ttr = Fields.duration(fields, "ttr");
        priority = Fields.text(fields, "priority");
        maxAttempts = Fields.number(fields, "max_attempts");
        owner = Fields.text(fields, "owner");
        createdAt = Fields.time(fields, "created_at");
        updatedAt = Fields.time(fields, "updated_at");
        etag = Fields.text(fields, "etag");
    }
}
