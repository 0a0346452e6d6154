package io.github.wakecall;

import java.io.IOException;
import java.math.BigDecimal;
import java.net.ConnectException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Wakecall's client for Java 11 and later. It uses the JDK only, so copying this file is enough.
 *
 * <pre>
 * var wakecall = new Wakecall("http://127.0.0.1:6789", token);
 * Job job = wakecall.push("order.close",
 *     new Push().id("order-42").body(Map.of("order", 42)).delay(Duration.ofMinutes(30)));
 * </pre>
 *
 * A refusal by the server throws an ApiException, a lost or impossible connection an UnreachableException. Requests are
 * repeated only if that is safe, and only when {@link #retryFor} allows it. A client may be shared by threads.
 *
 * JSON objects are Map&lt;String, Object&gt;, arrays List&lt;Object&gt;, numbers Long or BigDecimal; {@link #parse} and
 * {@link #write} read and write them.
 */
@SuppressWarnings("serial")
public final class Wakecall {
    private final URI base;
    private final String prefix;
    private final String token;
    private final HttpClient http;
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(60); // of a push

    private Duration timeout = Duration.ofSeconds(30);
    private Duration retryFor = Duration.ZERO;

    public Wakecall(String url, String token) {
        this(url, token, HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(10)).build());
    }

    /** With an HttpClient of your own, which must not follow redirects: a write would become a read. */
    public Wakecall(String url, String token, HttpClient http) {
        base = URI.create(url.replaceAll("/+$", ""));
        if (!List.of("http", "https").contains(String.valueOf(base.getScheme())) || base.getHost() == null) {
            throw new IllegalArgumentException("server URL must be http://HOST:PORT or https://HOST");
        }
        prefix = base.toString();
        this.token = token;
        this.http = http;
    }

    /** Sets how long a whole request may take; 30 seconds at first. */
    public Wakecall timeout(Duration d) {
        timeout = d;
        return this;
    }

    /** Sets how long requests that are safe to repeat are repeated; at first, they are not. */
    public Wakecall retryFor(Duration d) {
        retryFor = d;
        return this;
    }

    // Errors

    /** Every error of this client. */
    public abstract static class WakecallException extends RuntimeException {
        private WakecallException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** A refusal by the server: RFC 9457's problem details. */
    public static final class ApiException extends WakecallException {
        public final int status;
        public final String code; // what kind of problem it is, such as job_exists; the API page lists them
        public final String title;
        public final String detail; // what is wrong, and how to fix it
        public final String field; // of the request that caused it, or ""
        public final String requestId; // finds the request in the server's log
        public final Duration retryAfter;
        public final String id; // of the job that was pushed, or ""

        private ApiException(int status, Map<String, Object> problem, String requestId, long retryAfter, String id) {
            super(message(status, problem), null);
            this.status = status;
            code = text(problem, "code");
            title = text(problem, "title");
            detail = text(problem, "detail");
            field = text(problem, "field");
            this.requestId = requestId;
            this.retryAfter = Duration.ofSeconds(retryAfter);
            this.id = problem.containsKey("id") ? text(problem, "id") : id;
        }

        private ApiException withId(String id) {
            var problem = Map.<String, Object>of("code", code, "title", title, "detail", detail, "field", field);
            return this.id.isEmpty() ? new ApiException(status, problem, requestId, retryAfter.toSeconds(), id) : this;
        }

        private static String message(int status, Map<String, Object> problem) {
            String field = text(problem, "field");
            String text = text(problem, "detail");
            text = text.isEmpty() ? text(problem, "title") : text;
            text = text.isEmpty() ? "status " + status : text;
            return text.contains(field) ? text : field + ": " + text;
        }
    }

    /** There was no answer. */
    public static final class UnreachableException extends WakecallException {
        public final boolean outcomeUnknown; // the request may have been carried out: push again with the same id
        public final String id; // of the job that was pushed, or ""

        private UnreachableException(String message, boolean outcomeUnknown, String id, Throwable cause) {
            super(message, cause);
            this.outcomeUnknown = outcomeUnknown;
            this.id = id;
        }
    }

    /** The body of a job cannot be decoded. A worker whose handler throws this releases the job for a minute. */
    public static final class UnreadableException extends WakecallException {
        private UnreadableException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** A callback does not have a valid signature: answer 401. */
    public static final class SignatureException extends WakecallException {
        private SignatureException(String message) {
            super(message, null);
        }
    }

    /** Thrown by a handler that cannot do a job now: it is ready again after a delay; the attempt is not counted. */
    public static final class Released extends Exception {
        private final Duration delay;

        public Released(Duration delay) {
            super("released for " + delay);
            this.delay = delay;
        }
    }

    /** Thrown by a handler that can never do a job: it is dead at once. */
    public static final class Buried extends Exception {
        public Buried(String reason) {
            super(reason);
        }
    }

    // Jobs

    /** A job to push, or the changes of one. */
    public static final class Push {
        private final Map<String, Object> members = new LinkedHashMap<>();
        private String body;

        /** Without an id, the client makes one, so that the push is safe to repeat. */
        public Push id(String id) {
            return set("id", id);
        }

        /** Any value that {@link #write} accepts. */
        public Push body(Object value) {
            return json(write(value));
        }

        /** A body that is JSON, sent byte for byte. */
        public Push json(String json) {
            parse(json);
            body = json;
            return this;
        }

        public Push delay(Duration d) {
            return set("delay", seconds(d));
        }

        public Push dueAt(Instant t) {
            return set("due_at", instant(t));
        }

        /** A local time. One that clocks skip is the first instant after the gap; of a repeated one, it is the first. */
        public Push dueAt(LocalDateTime t, ZoneId zone) {
            return set("due_at", t.toString()).set("time_zone", zone.getId());
        }

        /** high, normal or low. */
        public Push priority(String priority) {
            return set("priority", priority);
        }

        public Push ttr(Duration d) {
            return set("ttr", seconds(d));
        }

        public Push maxAttempts(int n) {
            return set("max_attempts", n);
        }

        /** keep, replace or error. */
        public Push onDuplicate(String what) {
            return set("on_duplicate", what);
        }

        public Push expiresAt(Instant t) {
            return set("expires_at", instant(t));
        }

        public Push headers(Map<String, String> headers) {
            return set("headers", headers);
        }

        /**
         * Makes push return when the job has ended, at the latest after this time, up to a minute: its state is "done",
         * with the member result in its fields, or "dead" then.
         */
        public Push waitFor(Duration d) {
            return set("wait", seconds(d));
        }

        /** When the time to wait is over: "keep" or "delete", which deletes the job unless it runs. */
        public Push onTimeout(String what) {
            return set("on_timeout", what);
        }

        /** A topic with {@code per_key} calls the jobs of a key one at a time. */
        public Push key(String name) {
            return set("key", name);
        }

        /** All jobs of a group can be cancelled at once: {@link Wakecall#cancelGroup}. */
        public Push group(String name) {
            return set("group", name);
        }

        /** The W3C trace context of the caller's span. */
        public Push traceparent(String value) {
            return set("traceparent", value);
        }

        /** Called instead of the topic's callback_url, if its job_urls allow it. In a change, null: the topic's. */
        public Push url(String url) {
            return set("url", url);
        }

        /** Required in a batch. */
        public Push topic(String topic) {
            return set("topic", topic);
        }

        /** Any other member of a push, by its name in the API. */
        public Push set(String member, Object value) {
            members.put(member, value);
            return this;
        }

        private Push withId() { // a copy, so that a Push that is used again gets another id
            var push = new Push();
            push.members.putAll(members);
            push.members.putIfAbsent("id", UUID.randomUUID().toString().replace("-", ""));
            push.body = body == null ? "null" : body;
            return push;
        }

        private String id() {
            return (String) members.get("id");
        }

        private boolean waits() {
            return members.containsKey("wait");
        }

        private boolean repeatable() {
            return !"error".equals(members.get("on_duplicate"));
        }

        private String encode() {
            String head = write(members);
            if (body == null) {
                return head;
            }
            return head.substring(0, head.length() - 1) + (members.isEmpty() ? "" : ",") + "\"body\":" + body + "}";
        }
    }

    /** A job, or a lease of one, in an answer.
     *  {@code fields} has all that the server's /docs describes, but the body. */
    public static final class Job {
        public final Map<String, Object> fields;
        private final Json json; // of the body; or null
        public final String topic;
        public final String id;
        public final String state; // of a leased job: ""
        public final Instant dueAt;
        public final boolean duplicate; // of a push: the id already existed
        public final String lease; // of a leased job
        public final String etag; // of get, change and run
        public final ApiException error; // of a refused push in a batch; else null

        private Job(Map<String, Object> fields, ApiException error) {
            this.fields = fields;
            topic = text(fields, "topic");
            id = text(fields, "id");
            state = text(fields, "state");
            json = (Json) fields.remove("body");
            dueAt = fields.containsKey("due_at") ? Instant.parse(text(fields, "due_at")) : null;
            duplicate = Boolean.TRUE.equals(fields.get("duplicate"));
            lease = text(fields, "lease");
            etag = text(fields, "etag");
            this.error = error;
        }

        /** The bytes of a body that is not text, or JSON that not every reader accepts; else null. */
        public byte[] bytes() {
            String encoded = text(fields, "body_base64");
            return encoded.isEmpty() ? null : Base64.getDecoder().decode(encoded);
        }

        /** Decodes the body, or throws an UnreadableException. Of a binary body: null; see {@link #bytes}. */
        public Object body() {
            byte[] bytes = bytes();
            String text = json != null ? json.text : null;
            if (text == null && bytes != null && JSON_TYPE.matcher(text(fields, "content_type")).lookingAt()) {
                text = new String(bytes, StandardCharsets.UTF_8);
            }
            try {
                return text == null ? null : parse(text);
            } catch (IllegalArgumentException | StackOverflowError e) {
                throw new UnreadableException("the body of " + topic + "/" + id + ": " + e, e);
            }
        }
    }

    private static final Pattern JSON_TYPE =
        Pattern.compile("(application/json|[^;]*\\+json)?\\s*(;|$)", Pattern.CASE_INSENSITIVE);

    /** JSON that is not decoded yet. */
    private static final class Json {
        private final String text;

        private Json(String text) {
            this.text = text;
        }
    }

    /** Pushes a job, and returns it as the server stored it. */
    public Job push(String topic, Push job) {
        Push push = job.withId();
        try {
            return new Job(request("POST", path(topic)).body(push.encode()).repeatable(push.repeatable())
                .waits(push.waits() ? LONGEST_WAIT : Duration.ZERO).send(), null);
        } catch (ApiException e) {
            throw e.withId(push.id());
        } catch (UnreachableException e) {
            throw new UnreachableException(e.getMessage(), e.outcomeUnknown, push.id(), e.getCause());
        }
    }

    /**
     * Pushes up to 1,000 jobs, each with its topic. Returns a list in their order; a refused job has an {@code error},
     * and does not fail the others.
     */
    public List<Job> pushBatch(List<Push> pushes) {
        var text = new StringBuilder("{\"jobs\":[");
        boolean repeatable = true;
        var ids = new ArrayList<String>();
        for (Push job : pushes) {
            Push push = job.withId();
            text.append(ids.isEmpty() ? "" : ",").append(push.encode());
            repeatable &= push.repeatable();
            ids.add(push.id());
        }
        var answer = request("POST", "/v1/jobs").body(text + "]}").repeatable(repeatable).send();
        var results = (List<?>) answer.get("results");
        if (results.size() != ids.size()) {
            throw new IllegalStateException("got " + results.size() + " results for " + ids.size() + " jobs");
        }
        var jobs = new ArrayList<Job>();
        for (Object result : results) {
            Map<String, Object> r = object(result);
            Map<String, Object> problem = object(r.get("error"));
            int status = problem == null ? 0 : ((Long) problem.get("status")).intValue();
            String id = ids.get(jobs.size());
            jobs.add(new Job(r, problem == null ? null : new ApiException(status, problem, "", 0, id)));
        }
        return jobs;
    }

    /** Returns a job with its attempts (history) and what it waits for (waits). */
    public Job get(String topic, String id) {
        return new Job(request("GET", path(topic, id)).repeatable(true).send(), null);
    }

    /** Changes due time, priority, URL or body of a delayed or ready job; with an etag, only if it has not changed since. */
    public Job change(String topic, String id, Push changes, String etag) {
        // A delay counts from its arrival, so repeating it would move the job again.
        boolean repeatable = !changes.members.containsKey("delay") && etag == null;
        Request request = request("PATCH", path(topic, id)).body(changes.encode()).header("If-Match", etag)
            .repeatable(repeatable);
        return new Job(request.send(), null);
    }

    public Job change(String topic, String id, Push changes) {
        return change(topic, id, changes, null);
    }

    /** Deletes a job. No callback starts after this has returned. */
    public void delete(String topic, String id) {
        delete(topic, id, null);
    }

    public void delete(String topic, String id, String etag) {
        request("DELETE", path(topic, id)).header("If-Match", etag).send();
    }

    /** Makes a job due now; a dead job starts again at attempt 1. */
    public Job run(String topic, String id) {
        return new Job(request("POST", path(topic, id) + "/run").send(), null);
    }

    // Groups

    /** A group. {@code fields} has all that the server's /docs describes, but the jobs. */
    public static final class Group {
        public final Map<String, Object> fields;
        public final long delayed; // jobs by state
        public final long ready;
        public final long running;
        public final long dead;
        public final Instant closedUntil; // until then pushes into it are refused; null: it is not closed
        public final List<Job> jobs = new ArrayList<>(); // the first ones by due time

        private Group(Map<String, Object> fields) {
            this.fields = fields;
            Map<String, Object> counts = object(fields.get("counts"));
            delayed = (Long) counts.get("delayed");
            ready = (Long) counts.get("ready");
            running = (Long) counts.get("running");
            dead = (Long) counts.get("dead");
            closedUntil = fields.containsKey("closed_until") ? Instant.parse(text(fields, "closed_until")) : null;
            for (Object job : (List<?>) fields.remove("jobs")) {
                jobs.add(new Job(object(job), null));
            }
        }
    }

    /** What cancelling a group did. */
    public static final class Cancelled {
        public final long deleted;
        public final long running; // they end, and are not retried
        public final List<String> pending = new ArrayList<>(); // shards that do not answer

        private Cancelled(Map<String, Object> fields) {
            deleted = (Long) fields.get("deleted");
            running = (Long) fields.get("running");
            for (Object shard : (List<?>) fields.getOrDefault("pending", List.of())) {
                pending.add((String) shard);
            }
        }
    }

    /** What moving a group did. */
    public static final class Moved {
        public final long moved;
        public final long skipped; // running, dead, or expiring before

        private Moved(Map<String, Object> fields) {
            moved = (Long) fields.get("moved");
            skipped = (Long) fields.get("skipped");
        }
    }

    /** Returns a group with up to 100 of its jobs. */
    public Group group(String name) {
        return group(name, 100);
    }

    /** Returns a group with up to limit of its jobs. */
    public Group group(String name, int limit) {
        return new Group(request("GET", groupPath(name) + "?limit=" + limit).repeatable(true).send());
    }

    /**
     * Deletes the waiting and dead jobs of a group, in all topics that the token may push to. No callback of them
     * starts after this has returned, except within 2 s on the shards that are pending.
     */
    public Cancelled cancelGroup(String name) {
        return cancelGroup(name, null);
    }

    /** And closes the group for a time: pushes into it are refused with the code group_closed. */
    public Cancelled cancelGroup(String name, Duration close) {
        String query = close == null ? "" : "?close=" + seconds(close).toPlainString();
        return new Cancelled(request("DELETE", groupPath(name) + query).repeatable(true).send());
    }

    /** Makes the delayed and ready jobs of a group due after a delay from now. */
    public Moved moveGroup(String name, Duration delay) {
        // A delay counts from its arrival, so repeating it would move the jobs again.
        return moveGroup(name, Map.of("delay", seconds(delay)), null, false);
    }

    /** Makes the delayed and ready jobs of a group due at a time. */
    public Moved moveGroup(String name, Instant dueAt) {
        return moveGroup(name, Map.of("due_at", instant(dueAt)), null, true);
    }

    /**
     * Moves each of the delayed and ready jobs of a group by a time, which may be negative. Within a day, calls with
     * the same key move each job once.
     */
    public Moved shiftGroup(String name, Duration shift, String key) {
        return moveGroup(name, Map.of("shift", seconds(shift)), key, true);
    }

    private Moved moveGroup(String name, Map<String, Object> move, String key, boolean repeatable) {
        return new Moved(request("PATCH", groupPath(name)).body(write(move)).header("Idempotency-Key", key)
            .repeatable(repeatable).send());
    }

    // Schedules

    /** A recurring job. One of cron and every, a topic and a body are required. */
    public static final class Recurring {
        private final Push members = new Push();

        /** Five fields, such as 0 8 * * 1-5, in the time zone. */
        public Recurring cron(String cron) {
            return set("cron", cron);
        }

        /** Instead of cron; whole seconds. */
        public Recurring every(Duration d) {
            return set("every", seconds(d));
        }

        /** As Asia/Shanghai; UTC if it is not set. */
        public Recurring timeZone(String zone) {
            return set("time_zone", zone);
        }

        public Recurring startAt(Instant t) {
            return set("start_at", instant(t));
        }

        public Recurring endAt(Instant t) {
            return set("end_at", instant(t));
        }

        /** Of every job: any value that {@link #write} accepts. */
        public Recurring body(Object value) {
            members.body(value);
            return this;
        }

        /** A body that is JSON, sent byte for byte. */
        public Recurring json(String json) {
            members.json(json);
            return this;
        }

        /** high, normal or low. */
        public Recurring priority(String priority) {
            return set("priority", priority);
        }

        public Recurring headers(Map<String, String> headers) {
            return set("headers", headers);
        }

        /** Each job is due up to this much later. */
        public Recurring jitter(Duration d) {
            return set("jitter", seconds(d));
        }

        /** What is pushed late: last, skip or all. */
        public Recurring missed(String what) {
            return set("missed", what);
        }

        public Recurring maxLate(Duration d) {
            return set("max_late", seconds(d));
        }

        /** While the previous occurrence has not ended: skip, replace or allow. */
        public Recurring overlap(String what) {
            return set("overlap", what);
        }

        /** Any other member of a schedule, by its name in the API. */
        public Recurring set(String member, Object value) {
            members.set(member, value);
            return this;
        }
    }

    /** A schedule in an answer. {@code fields} has all that the server's /docs describes, but the body. */
    public static final class Schedule {
        public final Map<String, Object> fields;
        public final String name;
        public final String topic;
        public final String state; // active or paused
        public final List<Instant> next; // the next occurrences
        public final List<Occurrence> last = new ArrayList<>(); // the last jobs, newest first
        public final Map<String, Long> leftOut = new LinkedHashMap<>(); // how many occurrences, by reason
        private final Job job;

        private Schedule(Map<String, Object> fields) {
            this.fields = fields;
            name = text(fields, "name");
            topic = text(fields, "topic");
            state = text(fields, "state");
            next = instants(fields.get("next"));
            for (Object o : (List<?>) fields.getOrDefault("last", List.of())) {
                last.add(new Occurrence(object(o)));
            }
            object(fields.getOrDefault("left_out", Map.of())).forEach((why, n) -> leftOut.put(why, (Long) n));
            job = new Job(fields, null);
        }

        /** Decodes the body of its jobs, or throws an UnreadableException. */
        public Object body() {
            return job.body();
        }
    }

    /** A job that a schedule has pushed. */
    public static final class Occurrence {
        public final String id;
        public final Instant scheduledFor;
        public final String state;

        private Occurrence(Map<String, Object> fields) {
            id = text(fields, "id");
            scheduledFor = Instant.parse(text(fields, "scheduled_for"));
            state = text(fields, "state");
        }
    }

    /** What a backfill did; of a dry run, only the occurrences. */
    public static final class Backfilled {
        public final List<Instant> occurrences;
        public final long pushed;
        public final long existing; // their jobs exist already
        public final long leftOut; // because of the overlap

        private Backfilled(Map<String, Object> fields) {
            occurrences = instants(fields.get("occurrences"));
            pushed = (Long) fields.get("pushed");
            existing = (Long) fields.get("existing");
            leftOut = (Long) fields.get("left_out");
        }
    }

    /** Returns all schedules of a topic, or of null (all topics) that the token may read, by name. */
    public List<Schedule> schedules(String topic) {
        var all = new ArrayList<Schedule>();
        String query = "?limit=1000" + (topic == null ? "" : "&topic=" + escape(topic));
        for (String cursor = "";;) {
            var page = request("GET", "/v1/schedules" + query + cursor).repeatable(true).send();
            for (Object fields : (List<?>) page.get("schedules")) {
                all.add(new Schedule(object(fields)));
            }
            if (text(page, "next").isEmpty()) {
                return all;
            }
            cursor = "&cursor=" + escape(text(page, "next"));
        }
    }

    /** Returns a schedule. */
    public Schedule schedule(String name) {
        return new Schedule(request("GET", schedulePath(name)).repeatable(true).send());
    }

    /** Creates a schedule, or replaces it as a whole. */
    public Schedule putSchedule(String name, String topic, Recurring schedule) {
        String text = schedule.set("topic", topic).members.encode();
        return new Schedule(request("PUT", schedulePath(name)).body(text).repeatable(true).send());
    }

    /** Deletes a schedule. Its jobs stay. */
    public void deleteSchedule(String name) {
        request("DELETE", schedulePath(name)).send();
    }

    /** Pauses a schedule until it is resumed. */
    public Schedule pauseSchedule(String name) {
        return pauseSchedule(name, null);
    }

    /** Pauses a schedule until a time. */
    public Schedule pauseSchedule(String name, Instant until) {
        return new Schedule(ask(name, "pause", until == null ? Map.of() : Map.of("until", instant(until))));
    }

    /** Ends a pause. The occurrences of the pause are left out, or with catchUp pushed as {@code missed} says. */
    public Schedule resumeSchedule(String name, boolean catchUp) {
        return new Schedule(ask(name, "resume", catchUp ? Map.of("catch_up", true) : Map.of()));
    }

    /** Pushes a job of a schedule now, and returns its id. The next occurrence is pushed nevertheless. */
    public String runSchedule(String name) {
        return text(request("POST", schedulePath(name) + "/run").send(), "id");
    }

    /**
     * Pushes the occurrences from a time on, before another, that have no job; at most 1,000.
     *
     * @param overlap skip, replace or allow; null: allow
     * @param dryRun  push none
     */
    public Backfilled backfillSchedule(String name, Instant from, Instant to, String overlap, boolean dryRun) {
        var backfill = new LinkedHashMap<String, Object>(Map.of("from", instant(from), "to", instant(to)));
        if (overlap != null) {
            backfill.put("overlap", overlap);
        }
        if (dryRun) {
            backfill.put("dry_run", true);
        }
        return new Backfilled(ask(name, "backfill", backfill));
    }

    private Map<String, Object> ask(String schedule, String action, Map<String, Object> what) {
        return request("POST", schedulePath(schedule) + "/" + action).body(write(what)).repeatable(true).send();
    }

    // Tasks

    /**
     * Starts a task, which does one thing to all jobs that match a filter, and returns it as the server's /docs
     * describes it. It goes on by itself.
     *
     * @param task action, filter, and what the action needs, as the API's JSON has them
     * @param key  calls with the same key start one task; null: each call starts another
     */
    public Map<String, Object> startTask(Map<String, Object> task, String key) {
        return request("POST", "/v1/tasks").body(write(task))
            .header("Idempotency-Key", key == null ? UUID.randomUUID().toString() : key).repeatable(true).send();
    }

    /** Returns a task: its state, and how many jobs matched, are done, skipped by reason, and failed. */
    public Map<String, Object> task(String id) {
        return request("GET", "/v1/tasks/" + escape(id)).repeatable(true).send();
    }

    /** Returns up to limit tasks that the token may see, newest first. */
    public List<Map<String, Object>> tasks(int limit) {
        var tasks = new ArrayList<Map<String, Object>>();
        for (Object task : (List<?>) request("GET", "/v1/tasks?limit=" + limit).repeatable(true).send().get("tasks")) {
            tasks.add(object(task));
        }
        return tasks;
    }

    /** Asks a task to end, and returns it. What it has done stays. */
    public Map<String, Object> cancelTask(String id) {
        return request("DELETE", "/v1/tasks/" + escape(id)).repeatable(true).send();
    }

    // Pull topics

    /** Reserves up to max ready jobs of pull topics; waits for the first one. ttr null: the job's, or its topic's. */
    public List<Job> reserve(List<String> topics, int max, Duration wait, Duration ttr) {
        var ask = with(Map.of("topics", topics, "max", max, "wait", seconds(wait)), "ttr", seconds(ttr));
        var jobs = new ArrayList<Job>();
        for (Object job : (List<?>) request("POST", "/v1/reserve").body(write(ask)).waits(wait).send().get("jobs")) {
            jobs.add(new Job(object(job), null));
        }
        return jobs;
    }

    /** Ends the lease of a job that is done. */
    public void ack(String lease) {
        end(lease, "ack", Map.of()).send();
    }

    /** Makes a job ready again after a delay; the attempt is not counted. */
    public void release(String lease, Duration delay) {
        end(lease, "release", Map.of("delay", seconds(delay))).send();
    }

    /** Ends a failed attempt: the job is retried by its schedule, or dead after its last attempt. */
    public void fail(String lease, String reason) {
        end(lease, "fail", Map.of("reason", cut(reason))).send();
    }

    /** Makes a job dead. */
    public void bury(String lease, String reason) {
        end(lease, "bury", Map.of("reason", cut(reason))).send();
    }

    /** Makes a lease last for ttr from now; null: for the TTR of the job, or of its topic. */
    public Instant extend(String lease, Duration ttr) {
        return Instant.parse(text(end(lease, "extend", with(Map.of(), "ttr", seconds(ttr))).send(), "leased_until"));
    }

    private Request end(String lease, String verb, Map<String, Object> ask) {
        return request("POST", "/v1/leases/" + escape(lease) + "/" + verb).body(write(ask)).repeatable(true);
    }

    /** Handles a job of a pull topic. */
    public interface Handler {
        void handle(Job job) throws Exception;
    }

    /** How a worker works, apart from what {@link #work} is told. */
    public static final class WorkOptions {
        private Duration wait = Duration.ofSeconds(5);
        private Duration ttr;
        private Consumer<WakecallException> failed = e -> { };

        /** How long to wait for a job at once; after a stop, work returns within that time. */
        public WorkOptions wait(Duration d) {
            wait = d;
            return this;
        }

        /** How long a lease lasts unless it is extended; the job's, or its topic's, if not set. */
        public WorkOptions ttr(Duration d) {
            ttr = d;
            return this;
        }

        /** Gets the errors that are repeated, and those of leases that could not be ended. */
        public WorkOptions failed(Consumer<WakecallException> f) {
            failed = f;
            return this;
        }
    }

    public void work(List<String> topics, Handler handler, BooleanSupplier stopped) {
        work(topics, handler, stopped, new WorkOptions());
    }

    /**
     * Reserves jobs of pull topics one after the other, and calls the handler for each, until stopped returns true or
     * the thread is interrupted. When the handler returns, the job is done. Released and Buried mean what their names
     * say; any other exception fails the attempt. The lease is extended meanwhile. For several jobs at once, call work
     * in several threads.
     */
    public void work(List<String> topics, Handler handler, BooleanSupplier stopped, WorkOptions options) {
        double pause = 0;
        while (!stopped.getAsBoolean() && !Thread.currentThread().isInterrupted()) {
            long began = System.nanoTime();
            List<Job> jobs = List.of();
            boolean early = true;
            try {
                jobs = reserve(topics, 1, options.wait, options.ttr);
                // A server that is stopping lets no worker wait.
                early = jobs.isEmpty() && System.nanoTime() - began < 500_000_000L;
            } catch (WakecallException e) {
                if (!temporary(e)) {
                    throw e;
                }
                options.failed.accept(e);
            }
            for (Job job : jobs) {
                workOn(job, stopped.getAsBoolean() ? j -> { throw new Released(Duration.ZERO); } : handler, options);
            }
            pause = early ? Math.min(Math.max(2 * pause, 0.1), 5) : 0;
            sleep(pause * ThreadLocalRandom.current().nextDouble(0.5, 1));
        }
    }

    private void workOn(Job job, Handler handler, WorkOptions options) {
        double length = goSeconds(text(job.fields, "ttr"));
        var done = new CountDownLatch(1);
        var extending = new Thread(() -> extend(job, length, done, options), "wakecall-extend");
        extending.setDaemon(true);
        extending.start();
        Request end;
        boolean interrupted = false;
        try {
            handler.handle(job);
            end = end(job.lease, "ack", Map.of());
        } catch (Released e) {
            end = end(job.lease, "release", Map.of("delay", seconds(e.delay)));
        } catch (Buried e) {
            end = end(job.lease, "bury", Map.of("reason", cut(e.getMessage())));
        } catch (UnreadableException e) {
            options.failed.accept(e);
            end = end(job.lease, "release", Map.of("delay", 60));
        } catch (InterruptedException e) {
            interrupted = true; // only after the release: an interrupted thread sends nothing
            end = end(job.lease, "release", Map.of());
        } catch (Exception e) {
            end = end(job.lease, "fail", Map.of("reason", cut(e.getMessage() == null ? e.toString() : e.getMessage())));
        } finally {
            done.countDown();
        }
        try {
            extending.join();
            end.retryFor(Duration.ofMillis((long) (1000 * Math.max(length, 10)))).send();
        } catch (WakecallException e) {
            options.failed.accept(e);
        } catch (InterruptedException e) {
            interrupted = true;
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void extend(Job job, double length, CountDownLatch done, WorkOptions options) {
        try {
            while (!done.await((long) (length * 1000 / 3), TimeUnit.MILLISECONDS)) {
                try {
                    var ask = with(Map.of(), "ttr", seconds(options.ttr));
                    end(job.lease, "extend", ask).retryFor(Duration.ZERO).send();
                } catch (WakecallException e) {
                    options.failed.accept(e);
                    if (!temporary(e)) { // the lease is lost: another worker may have the job
                        return;
                    }
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static boolean temporary(WakecallException e) {
        int status = e instanceof ApiException ? ((ApiException) e).status : 0;
        return e instanceof UnreachableException || status >= 500 || status == 429;
    }

    // Signatures

    /**
     * Checks the signature of a callback (Standard Webhooks), or throws a SignatureException.
     *
     * @param secrets the topic's, whsec_…; several while one is being rotated
     * @param header  returns a header of the request, or null: request::getHeader or
     *                exchange.getRequestHeaders()::getFirst
     * @param body    the bytes as received
     */
    public static void verify(Collection<String> secrets, UnaryOperator<String> header, byte[] body) {
        verify(secrets, header, body, Duration.ofMinutes(5));
    }

    /** The time of the callback may differ from this host's clock by tolerance. */
    public static void verify(
            Collection<String> secrets, UnaryOperator<String> header, byte[] body, Duration tolerance) {
        String id = header.apply("webhook-id");
        String sent = header.apply("webhook-timestamp");
        String signatures = header.apply("webhook-signature");
        if (id == null || id.isEmpty() || sent == null || !sent.matches("[0-9]{1,12}")) {
            throw new SignatureException("the callback has no webhook-id or no valid webhook-timestamp");
        }
        if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(sent)) > tolerance.toSeconds()) {
            throw new SignatureException("webhook-timestamp " + sent + " is more than " + tolerance.toSeconds()
                + " s away from this host's clock");
        }
        boolean found = false;
        for (String secret : secrets) {
            byte[] want = ("v1," + sign(secret, id + "." + sent + ".", body)).getBytes(StandardCharsets.UTF_8);
            for (String signature : String.valueOf(signatures).split(" ")) {
                found |= MessageDigest.isEqual(want, signature.getBytes(StandardCharsets.UTF_8));
            }
        }
        if (!found) {
            throw new SignatureException("no signature matches: is the topic's secret another one?");
        }
    }

    private static String sign(String secret, String head, byte[] body) {
        byte[] key = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));
        if (key.length == 0) {
            throw new IllegalArgumentException("secrets must be whsec_ followed by base64");
        }
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            mac.update(head.getBytes(StandardCharsets.UTF_8));
            return Base64.getEncoder().encodeToString(mac.doFinal(body));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e); // every JDK has it
        }
    }

    // Requests

    private Request request(String method, String path) {
        return new Request(method, path);
    }

    private final class Request {
        private final String method;
        private final String path;
        private String body;
        private final Map<String, String> headers = new LinkedHashMap<>();
        private boolean repeatable;
        private Duration patience = timeout;
        private Duration retries = retryFor;

        private Request(String method, String path) {
            this.method = method;
            this.path = path;
        }

        private Request body(String text) {
            body = text;
            return this;
        }

        private Request header(String name, String value) {
            if (value != null) {
                headers.put(name, value);
            }
            return this;
        }

        private Request repeatable(boolean yes) {
            repeatable = yes;
            return this;
        }

        private Request waits(Duration d) {
            patience = timeout.plus(d);
            return this;
        }

        private Request retryFor(Duration d) {
            retries = d;
            return this;
        }

        private Map<String, Object> send() {
            long deadline = System.nanoTime() + retries.toNanos();
            for (double pause = 0.05;; pause = Math.min(2 * pause, 1.6)) {
                double wait = pause;
                boolean again;
                WakecallException error;
                try {
                    return once();
                } catch (UnreachableException e) {
                    again = repeatable || !e.outcomeUnknown;
                    error = e;
                } catch (ApiException e) {
                    again = repeatable && e.status == 503;
                    wait = Math.max(pause, e.retryAfter.toSeconds());
                    error = e;
                }
                if (!again || System.nanoTime() + (long) (wait * 1e9) > deadline || !sleep(wait)) {
                    throw error;
                }
            }
        }

        private Map<String, Object> once() {
            var builder = HttpRequest.newBuilder(URI.create(prefix + path)).timeout(patience)
                .header("Accept", "application/json, application/problem+json").header("User-Agent", "wakecall-java")
                .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body));
            if (body != null) {
                builder.header("Content-Type", "application/json");
            }
            if (token != null && !token.isEmpty()) {
                builder.header("Authorization", "Bearer " + token);
            }
            headers.forEach(builder::header);
            var answer = http.sendAsync(builder.build(), BodyHandlers.ofByteArray());
            try {
                return answer(answer.get(patience.toMillis(), TimeUnit.MILLISECONDS)); // the body, too
            } catch (TimeoutException e) {
                answer.cancel(true);
                throw unreachable("timed out", true, e);
            } catch (InterruptedException e) {
                answer.cancel(true);
                Thread.currentThread().interrupt();
                throw unreachable("interrupted", true, e);
            } catch (ExecutionException e) {
                Throwable cause = e.getCause();
                if (!(cause instanceof IOException)) {
                    throw new IllegalStateException(cause);
                }
                boolean sent = !(cause instanceof ConnectException) && !(cause instanceof HttpConnectTimeoutException);
                throw unreachable(cause.getMessage() == null ? cause.toString() : cause.getMessage(), sent, cause);
            }
        }

        private UnreachableException unreachable(String why, boolean sent, Throwable cause) {
            return new UnreachableException("no answer from " + base.getAuthority() + ": " + why, sent, "", cause);
        }
    }

    private static Map<String, Object> answer(HttpResponse<byte[]> response) {
        String text = new String(response.body(), StandardCharsets.UTF_8);
        int status = response.statusCode();
        Map<String, Object> value = null;
        try {
            value = text.isEmpty() ? Map.of() : object(new Parser(text, true).whole());
        } catch (IllegalArgumentException e) {
            // of a proxy in between, most likely
        }
        if (value != null && status / 100 == 2) {
            return with(value, "etag", response.headers().firstValue("ETag").orElse(null));
        }
        if (status / 100 == 3) {
            String to = response.headers().firstValue("Location").orElse("");
            value = Map.of("detail", "redirected to " + to + "; use the URL of the server itself");
        } else if (value == null) {
            String line = text.replaceAll("\\s+", " ");
            value = Map.of("detail", "unexpected answer: " + line.substring(0, Math.min(200, line.length())));
        }
        String after = response.headers().firstValue("Retry-After").filter(s -> s.matches("[0-9]{1,9}")).orElse("0");
        String requestId = response.headers().firstValue("X-Request-Id").orElse("");
        throw new ApiException(status, value, requestId, Long.parseLong(after), "");
    }

    private static String path(String topic) {
        return "/v1/topics/" + escape(topic) + "/jobs";
    }

    private static String path(String topic, String id) {
        return path(topic) + "/" + escape(id);
    }

    private static String groupPath(String name) {
        return "/v1/groups/" + escape(name);
    }

    private static String schedulePath(String name) {
        return "/v1/schedules/" + escape(name);
    }

    private static String escape(String s) {
        if (s.equals(".") || s.equals("..")) { // otherwise a proxy would resolve it as a relative path
            return s.replace(".", "%2E");
        }
        return URLEncoder.encode(s, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static BigDecimal seconds(Duration d) {
        return d == null ? null : BigDecimal.valueOf(d.getSeconds()).add(BigDecimal.valueOf(d.getNano(), 9));
    }

    /** Rounded up to milliseconds, since a job must never be early. */
    private static String instant(Instant t) {
        return t.plusNanos(999_999).truncatedTo(ChronoUnit.MILLIS).toString();
    }

    private static List<Instant> instants(Object list) {
        var instants = new ArrayList<Instant>();
        for (Object text : list == null ? List.of() : (List<?>) list) {
            instants.add(Instant.parse((String) text));
        }
        return instants;
    }

    private static final Map<String, Double> UNITS =
        Map.of("h", 3600.0, "m", 60.0, "s", 1.0, "ms", 1e-3, "us", 1e-6, "µs", 1e-6, "ns", 1e-9);

    /** Seconds of a duration in an answer: 1m30s. */
    private static double goSeconds(String duration) {
        double sum = 0;
        for (Matcher m = Pattern.compile("([0-9.]+)([a-zµ]+)").matcher(duration); m.find();) {
            sum += Double.parseDouble(m.group(1)) * UNITS.get(m.group(2));
        }
        return sum;
    }

    /** The server accepts reasons of up to 512 bytes. */
    private static String cut(String reason) {
        byte[] bytes = String.valueOf(reason).getBytes(StandardCharsets.UTF_8);
        String cut = new String(bytes, 0, Math.min(bytes.length, 512), StandardCharsets.UTF_8);
        return bytes.length > 512 ? cut.replaceFirst("\uFFFD+$", "") : cut;
    }

    private static boolean sleep(double seconds) {
        try {
            Thread.sleep((long) (seconds * 1000));
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private static Map<String, Object> with(Map<String, Object> members, String name, Object value) {
        var all = new LinkedHashMap<>(members);
        if (value != null) {
            all.put(name, value);
        }
        return all;
    }

    private static String text(Map<String, Object> members, String name) {
        Object value = members.get(name);
        return value == null ? "" : value.toString();
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return value instanceof Map ? (Map<String, Object>) value : null;
    }

    // JSON

    /** Returns the JSON of a Map, Collection, CharSequence, Number, Boolean or null. */
    public static String write(Object value) {
        var out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> e : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                quote(out, String.valueOf(e.getKey()));
                write(out.append(':'), e.getValue());
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Collection) {
            String separator = "[";
            for (Object v : (Collection<?>) value) {
                write(out.append(separator), v);
                separator = ",";
            }
            out.append(separator.equals("[") ? "[]" : "]");
        } else if (value instanceof CharSequence) {
            quote(out, value.toString());
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            throw new IllegalArgumentException("JSON has no value for a " + value.getClass().getName());
        }
    }

    private static void quote(StringBuilder out, String s) {
        out.append('"');
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /** Parses JSON, or throws an IllegalArgumentException. */
    public static Object parse(String json) {
        return new Parser(json, false).whole();
    }

    private static final class Parser {
        private static final Pattern SPACE = Pattern.compile("[ \\t\\r\\n]*");
        private static final Pattern NUMBER = Pattern.compile("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?");
        private static final Pattern UNICODE = Pattern.compile("u([0-9a-fA-F]{4})");
        private static final String ESCAPED = "\"\\/bfnrt";
        private static final String MEANT = "\"\\/\b\f\n\r\t";
        private final String json;
        private final boolean answer; // of the server: the bodies of its jobs become Json
        private int depth;
        private int at;

        private Parser(String json, boolean answer) {
            this.json = json;
            this.answer = answer;
        }

        private Object whole() {
            Object value = value();
            if (skip() != json.length()) {
                throw unexpected();
            }
            return value;
        }

        private int skip() {
            match(SPACE);
            return at;
        }

        private Matcher match(Pattern pattern) {
            Matcher m = pattern.matcher(json).region(at, json.length());
            if (!m.lookingAt()) {
                return null;
            }
            at = m.end();
            return m;
        }

        private boolean next(String token) {
            skip();
            if (!json.startsWith(token, at)) {
                return false;
            }
            at += token.length();
            return true;
        }

        private void require(String token) {
            if (!next(token)) {
                throw unexpected();
            }
        }

        private IllegalArgumentException unexpected() {
            return new IllegalArgumentException("not JSON at character " + at);
        }

        private Object value() {
            if (next("{")) {
                return members();
            }
            if (next("[")) {
                return elements();
            }
            if (next("null")) {
                return null;
            }
            if (next("true")) {
                return true;
            }
            if (next("false")) {
                return false;
            }
            return json.startsWith("\"", at) ? string() : number();
        }

        private Map<String, Object> members() {
            var members = new LinkedHashMap<String, Object>();
            depth++;
            for (boolean first = true; !next("}"); first = false) {
                if (!first) {
                    require(",");
                }
                String name = string();
                require(":");
                // Jobs, and schedules, are at depth 1 or 3; at 2 and 4 are headers, which may be named body.
                members.put(name, answer && depth % 2 == 1 && name.equals("body") ? undecoded() : value());
            }
            depth--;
            return members;
        }

        private List<Object> elements() {
            var elements = new ArrayList<>();
            depth++;
            for (boolean first = true; !next("]"); first = false) {
                if (!first) {
                    require(",");
                }
                elements.add(value());
            }
            depth--;
            return elements;
        }

        /** Returns the value up to the end of the object that it is in. */
        private Json undecoded() {
            int start = at;
            for (int open = 0; at < json.length(); at++) {
                char c = json.charAt(at);
                if (open == 0 && (c == ',' || c == '}')) {
                    break;
                }
                open += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
                if (c == '"') {
                    for (at++; at < json.length() && json.charAt(at) != '"'; at++) {
                        at += json.charAt(at) == '\\' ? 1 : 0;
                    }
                }
            }
            return new Json(json.substring(start, Math.min(at, json.length())));
        }

        private Number number() {
            Matcher m = match(NUMBER);
            if (m == null) {
                throw unexpected();
            }
            boolean small = m.group(2) == null && m.group(3) == null && m.group().length() <= 18;
            return small ? (Number) Long.valueOf(m.group()) : (Number) new BigDecimal(m.group());
        }

        private String string() {
            require("\"");
            var s = new StringBuilder();
            while (at < json.length() && json.charAt(at) >= ' ') {
                char c = json.charAt(at++);
                if (c == '"') {
                    return s.toString();
                }
                s.append(c == '\\' ? escaped() : c);
            }
            throw unexpected();
        }

        private char escaped() {
            int known = at < json.length() ? ESCAPED.indexOf(json.charAt(at)) : -1;
            if (known >= 0) {
                at++;
                return MEANT.charAt(known);
            }
            Matcher m = match(UNICODE);
            if (m == null) {
                throw unexpected();
            }
            return (char) Integer.parseInt(m.group(1), 16);
        }
    }
}
