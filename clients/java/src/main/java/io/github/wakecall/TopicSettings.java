package io.github.wakecall;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a topic is to be. A setting that is not set has its default, but the secrets, which stay. In a patch, settings
 * that are not set stay, and null is the default: {@code set("retry", null)}.
 */
public final class TopicSettings extends Members<TopicSettings> {
    String etag;
    String reason;

    /** Returns the settings of a topic as it was read, to be changed if it has not changed since. */
    public static TopicSettings of(Topic topic) {
        var settings = new TopicSettings().ifMatch(topic.etag);
        settings.members.putAll(topic.fields);
        settings.members.remove("etag");
        return settings;
    }

    /** A name for people. */
    public TopicSettings title(String title) {
        return set("title", title);
    }

    /** push or pull. */
    public TopicSettings delivery(String delivery) {
        return set("delivery", delivery);
    }

    /** What is called when a job is due. */
    public TopicSettings callbackUrl(String url) {
        return set("callback_url", url);
    }

    /** Patterns of the URLs that a job may have instead. */
    public TopicSettings jobUrls(List<String> patterns) {
        return set("job_urls", patterns);
    }

    /** POST, PUT or GET. */
    public TopicSettings method(String method) {
        return set("method", method);
    }

    /** json, form, or the media type of jobs pushed without one. */
    public TopicSettings contentType(String type) {
        return set("content_type", type);
    }

    /** Sent with each callback. */
    public TopicSettings headers(Map<String, String> headers) {
        return set("headers", headers);
    }

    /** Of pushes that set none. */
    public TopicSettings delay(Duration d) {
        return set("delay", d);
    }

    /** How long an attempt may take. */
    public TopicSettings ttr(Duration d) {
        return set("ttr", d);
    }

    /** high, normal or low. */
    public TopicSettings priority(String priority) {
        return set("priority", priority);
    }

    /** Then a job is dead. */
    public TopicSettings maxAttempts(int n) {
        return set("max_attempts", n);
    }

    /** Delays before the next attempts; the last one repeats. */
    public TopicSettings retry(List<Duration> delays) {
        return set("retry", delays);
    }

    /** An expression that makes a 2xx answer a failure. */
    public TopicSettings retryIf(String expression) {
        return set("retry_if", expression);
    }

    /** Jobs called at once; 0: no limit. */
    public TopicSettings maxInFlight(int n) {
        return set("max_in_flight", n);
    }

    /** Callbacks a second; 0: no limit. */
    public TopicSettings rateLimit(double n) {
        return set("rate_limit", n);
    }

    /** How long jobs are delivered. */
    public TopicSettings expiresAfter(Duration d) {
        return set("expires_after", d);
    }

    /** dead or drop. */
    public TopicSettings onExpiry(String what) {
        return set("on_expiry", what);
    }

    /** memory or replica. */
    public TopicSettings durability(String durability) {
        return set("durability", durability);
    }

    /** For how long finished jobs can be found: last, 0 or a duration. */
    public TopicSettings remember(String how) {
        return set("remember", how);
    }

    /** Who gets mails about it. */
    public TopicSettings emails(List<String> addresses) {
        return set("emails", addresses);
    }

    /** Who is responsible for it. */
    public TopicSettings owner(String owner) {
        return set("owner", owner);
    }

    /** whsec_…, for signing; two while one is being replaced. */
    public TopicSettings secrets(List<String> secrets) {
        return set("secrets", secrets);
    }

    /** active, paused or offline. */
    public TopicSettings state(String state) {
        return set("state", state);
    }

    /** Why it is paused or offline; not in a patch. */
    public TopicSettings reason(String why) {
        reason = why;
        return this;
    }

    /** Replaces or patches the topic only if it has not changed since it was read with this etag. */
    public TopicSettings ifMatch(String etag) {
        this.etag = etag;
        return this;
    }
}
