package io.github.wakecall;

import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** A job to push. */
public final class Push extends Members<Push> {
    /** Without an id, the client makes one, so that the push is safe to repeat. */
    public Push id(String id) {
        return set("id", id);
    }

    /** Required in a batch. */
    public Push topic(String topic) {
        return set("topic", topic);
    }

    /** Any value that {@link Json#write} accepts. */
    public Push body(Object value) {
        return withBody(Json.write(value));
    }

    /** A body that is JSON, sent byte for byte. */
    public Push json(String json) {
        return withBody(json);
    }

    /** Due so long from now. */
    public Push delay(Duration d) {
        return set("delay", d);
    }

    /** Due at a time. */
    public Push dueAt(Instant t) {
        return set("due_at", t);
    }

    /** Due at a local time: after the gap if clocks skip it, the first one if it is repeated. */
    public Push dueAt(LocalDateTime t, ZoneId zone) {
        return set("due_at", t.toString()).set("time_zone", zone.getId());
    }

    /** high, normal or low. */
    public Push priority(String priority) {
        return set("priority", priority);
    }

    /** How long an attempt may take. */
    public Push ttr(Duration d) {
        return set("ttr", d);
    }

    /** Then the job is dead. */
    public Push maxAttempts(int n) {
        return set("max_attempts", n);
    }

    /** keep, replace or error. */
    public Push onDuplicate(String what) {
        return set("on_duplicate", what);
    }

    /** The job is not delivered later than this after the push. */
    public Push ttl(Duration d) {
        return set("ttl", d);
    }

    /** Instead of ttl. */
    public Push expiresAt(Instant t) {
        return set("expires_at", t);
    }

    /** Sent with the callback. */
    public Push headers(Map<String, String> headers) {
        return set("headers", headers);
    }

    /** Delays before the next attempts; the last one repeats. */
    public Push retry(List<Duration> delays) {
        return set("retry", delays);
    }

    /** All jobs of a group can be cancelled at once: {@link Wakecall#cancelGroup}. */
    public Push group(String name) {
        return set("group", name);
    }

    /** A topic with {@code per_key} calls the jobs of a key one at a time. */
    public Push key(String name) {
        return set("key", name);
    }

    /** Called instead of the topic's callback_url, if its job_urls allow it. */
    public Push url(String url) {
        return set("url", url);
    }

    /** The W3C trace context of the caller's span. */
    public Push traceparent(String value) {
        return set("traceparent", value);
    }

    /** Makes push return when the job has ended, at the latest after this time, up to a minute. */
    public Push waitFor(Duration d) {
        return set("wait", d);
    }

    /** When the time to wait is over: keep, or delete, which deletes the job unless it runs. */
    public Push onTimeout(String what) {
        return set("on_timeout", what);
    }

    Push withId() { // a copy, so that a Push that is used again gets another id
        var push = new Push();
        push.members.putAll(members);
        push.members.putIfAbsent("id", UUID.randomUUID().toString().replace("-", ""));
        push.body = body == null ? "null" : body;
        return push;
    }

    String id() {
        return (String) members.get("id");
    }

    boolean waits() {
        return members.get("wait") != null;
    }

    boolean repeatable() {
        return !"error".equals(members.get("on_duplicate"));
    }
}
