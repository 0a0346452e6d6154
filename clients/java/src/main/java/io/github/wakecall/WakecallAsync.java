package io.github.wakecall;

import io.github.wakecall.ApiException.Problem;
import io.github.wakecall.Transport.Request;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The calls of {@link Wakecall} without a thread that waits: {@link Wakecall#async}. The futures fail with the
 * exceptions that {@link Wakecall} throws. To cancel one closes its connection, with Java 16 or later.
 */
public final class WakecallAsync {
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(60); // of a push
    private static final Duration LONGEST_SEARCH = Duration.ofMinutes(10);

    private final Transport transport;

    WakecallAsync(Transport transport) {
        this.transport = transport;
    }

    // Jobs

    /** Pushes a job, and returns it as the server stored it. */
    public CompletableFuture<Job> push(String topic, Push job) {
        Push push = job.withId();
        return request("POST", jobsPath(topic)).json(push.encode()).repeatable(push.repeatable()).id(push.id())
            .waits(push.waits() ? LONGEST_WAIT : Duration.ZERO).send(Job::new);
    }

    /**
     * Pushes up to 1,000 jobs, each with its topic. Returns their results in their order. A refused job does not fail
     * the others.
     */
    public CompletableFuture<List<PushResult>> pushBatch(List<Push> pushes) {
        var jobs = pushes.stream().map(Push::withId).collect(Collectors.toList());
        String text = jobs.stream().map(Push::encode).collect(Collectors.joining(",", "{\"jobs\":[", "]}"));
        return request("POST", "/v1/jobs").json(text).repeatable(jobs.stream().allMatch(Push::repeatable))
            .send(fields -> results(jobs, fields));
    }

    /** Returns a job with its attempts. */
    public CompletableFuture<Job> get(String topic, String id) {
        return request("GET", jobPath(topic, id)).repeatable(true).send(Job::new);
    }

    /**
     * Returns a page of the jobs of a topic in a state: delayed, ready, running, dead or done. The filter is for dead
     * jobs, its prefix also for done ones; null: all. Listed jobs have neither body nor history. cursor: "", or the
     * next of the page before.
     */
    public CompletableFuture<Page<Job>> jobs(String topic, String state, JobFilter filter, String cursor) {
        Request request = request("GET", jobsPath(topic)).query("state", state).query("limit", 1000)
            .query("cursor", cursor).repeatable(true);
        if (filter != null) {
            filter.members.forEach(request::query);
        }
        return request.send(fields -> page(fields, "jobs", Job::new));
    }

    /** Changes a delayed or ready job. */
    public CompletableFuture<Job> change(String topic, String id, Change change) {
        // A delay counts from its arrival, so repeating it would move the job again.
        boolean repeatable = !change.members.containsKey("delay") && change.etag == null;
        return request("PATCH", jobPath(topic, id)).json(change.encode()).header("If-Match", change.etag)
            .repeatable(repeatable).send(Job::new);
    }

    /** Deletes a job. No callback starts after this has returned. */
    public CompletableFuture<Void> delete(String topic, String id) {
        return delete(topic, id, null);
    }

    /** Deletes a job if it has not changed since it was read with this etag. */
    public CompletableFuture<Void> delete(String topic, String id, String etag) {
        return request("DELETE", jobPath(topic, id)).header("If-Match", etag).send();
    }

    /** Makes a job due now; a dead job starts again at attempt 1. */
    public CompletableFuture<Job> run(String topic, String id) {
        return request("POST", jobPath(topic, id) + "/run").send(Job::new);
    }

    /** Makes dead jobs ready again, with no attempts made. Returns their number. */
    public CompletableFuture<Long> retryDead(String topic, DeadJobs which) {
        return dead(topic, "retry", which);
    }

    /** Deletes dead jobs. Returns their number. */
    public CompletableFuture<Long> deleteDead(String topic, DeadJobs which) {
        return dead(topic, "delete", which);
    }

    /**
     * Returns what the shards and the journals of all hosts have of an id. Large journals take minutes. topic null:
     * all.
     */
    public CompletableFuture<Found> search(String id, String topic) {
        return request("GET", "/v1/search").query("id", id).query("topic", topic).repeatable(true).waits(LONGEST_SEARCH)
            .send(Found::new);
    }

    // Topics

    /**
     * Returns a page of the topics that the token may manage, by name, whose names begin with a prefix, in a state, and
     * of an owner; null: all. cursor: "", or the next of the page before.
     */
    public CompletableFuture<Page<Topic>> topics(String prefix, String state, String owner, String cursor) {
        Request request = request("GET", "/v1/topics").query("prefix", prefix).query("state", state)
            .query("owner", owner).query("cursor", cursor).repeatable(true);
        return request.send(fields -> page(fields, "topics", Topic::new));
    }

    /** Returns a topic. */
    public CompletableFuture<Topic> topic(String name) {
        return request("GET", topicPath(name)).repeatable(true).send(Topic::new);
    }

    /** Creates a topic, or replaces it as a whole. */
    public CompletableFuture<Topic> putTopic(String name, TopicSettings settings) {
        return request("PUT", topicPath(name)).query("reason", settings.reason).json(settings.encode())
            .header("If-Match", settings.etag).repeatable(settings.etag == null).send(Topic::new);
    }

    /**
     * Changes the settings that are set (a JSON merge patch): null resets one to its default; headers and per_key are
     * merged.
     */
    public CompletableFuture<Topic> patchTopic(String name, TopicSettings changes) {
        // The server refuses the reason, which a patch does not have.
        return request("PATCH", topicPath(name)).query("reason", changes.reason).json(changes.encode())
            .header("If-Match", changes.etag).repeatable(changes.etag == null).send(Topic::new);
    }

    /**
     * Pauses a topic until it is resumed. reason, for the others on call; null: none. If it is paused already, this
     * replaces its reason and end.
     */
    public CompletableFuture<Topic> pauseTopic(String name, String reason) {
        return pause(name, reason, null);
    }

    /** Pauses a topic until a time. */
    public CompletableFuture<Topic> pauseTopic(String name, String reason, Instant until) {
        return pause(name, reason, until);
    }

    /** Pauses a topic for a duration. */
    public CompletableFuture<Topic> pauseTopic(String name, String reason, Duration time) {
        return pause(name, reason, Fields.duration(time));
    }

    /** Makes a paused or offline topic active. */
    public CompletableFuture<Topic> resumeTopic(String name) {
        return request("POST", topicPath(name) + "/resume").repeatable(true).send(Topic::new);
    }

    /** Deletes a topic that has no jobs and that no schedule uses. */
    public CompletableFuture<Void> deleteTopic(String name) {
        return deleteTopic(name, false, false, null);
    }

    /**
     * Deletes a topic.
     *
     * @param drop  also deletes its jobs
     * @param force also deletes the schedules that use it
     * @param etag  if not null, the topic is deleted only if it has not changed since
     */
    public CompletableFuture<Void> deleteTopic(String name, boolean drop, boolean force, String etag) {
        return request("DELETE", topicPath(name)).query("drop", drop ? true : null).query("force", force ? true : null)
            .header("If-Match", etag).send();
    }

    // Groups

    /** Returns a group with up to 100 of its jobs. */
    public CompletableFuture<Group> group(String name) {
        return group(name, 100);
    }

    /** Returns a group with up to limit of its jobs. */
    public CompletableFuture<Group> group(String name, int limit) {
        return request("GET", groupPath(name)).query("limit", limit).repeatable(true).send(Group::new);
    }

    /**
     * Deletes the waiting and dead jobs of a group, in all topics that the token may push to. No callback of them
     * starts after this has returned, except within 2 s on the shards that are pending.
     */
    public CompletableFuture<GroupCancelled> cancelGroup(String name) {
        return cancelGroup(name, null);
    }

    /** And closes the group for a time: pushes into it are refused with a GroupClosedException. */
    public CompletableFuture<GroupCancelled> cancelGroup(String name, Duration close) {
        return cancelGroup(name, close, null);
    }

    /** In the topics that match the patterns, separated by commas. close null: the group stays open. */
    public CompletableFuture<GroupCancelled> cancelGroup(String name, Duration close, String topics) {
        return request("DELETE", groupPath(name)).query("close", close).query("topics", topics).repeatable(true)
            .send(GroupCancelled::new);
    }

    /** Makes the delayed and ready jobs of a group due after a delay from now. */
    public CompletableFuture<GroupMoved> moveGroup(String name, Duration delay) {
        // A delay counts from its arrival, so repeating it would move the jobs again.
        return moveGroup(name, Map.of("delay", delay), null, false);
    }

    /** Makes the delayed and ready jobs of a group due at a time. */
    public CompletableFuture<GroupMoved> moveGroup(String name, Instant dueAt) {
        return moveGroup(name, Map.of("due_at", dueAt), null, true);
    }

    /** Moves each of the delayed and ready jobs of a group by a time, which may be negative. */
    public CompletableFuture<GroupMoved> shiftGroup(String name, Duration shift) {
        return shiftGroup(name, shift, UUID.randomUUID().toString());
    }

    /** And once within a day, however often it is called with the same key. */
    public CompletableFuture<GroupMoved> shiftGroup(String name, Duration shift, String idempotencyKey) {
        return moveGroup(name, Map.of("shift", shift), idempotencyKey, true);
    }

    // Schedules

    /**
     * Returns a page of the schedules of a topic, or of null (all topics) that the token may read, by name. cursor:
     * "", or the next of the page before.
     */
    public CompletableFuture<Page<Schedule>> schedules(String topic, String cursor) {
        Request request = request("GET", "/v1/schedules").query("topic", topic).query("limit", 1000)
            .query("cursor", cursor).repeatable(true);
        return request.send(fields -> page(fields, "schedules", Schedule::new));
    }

    /** Returns a schedule. */
    public CompletableFuture<Schedule> schedule(String name) {
        return request("GET", schedulePath(name)).repeatable(true).send(Schedule::new);
    }

    /** Creates a schedule, or replaces it as a whole. */
    public CompletableFuture<Schedule> putSchedule(String name, String topic, ScheduleSettings settings) {
        settings.set("topic", topic);
        if (settings.body == null) {
            settings.json("null");
        }
        return request("PUT", schedulePath(name)).json(settings.encode()).repeatable(true).send(Schedule::new);
    }

    /** Deletes a schedule. Its jobs stay. */
    public CompletableFuture<Void> deleteSchedule(String name) {
        return request("DELETE", schedulePath(name)).send();
    }

    /** Pauses a schedule until it is resumed. */
    public CompletableFuture<Schedule> pauseSchedule(String name) {
        return ask(name, "pause", Map.of()).send(Schedule::new);
    }

    /** Pauses a schedule until a time. */
    public CompletableFuture<Schedule> pauseSchedule(String name, Instant until) {
        return ask(name, "pause", Map.of("until", until)).send(Schedule::new);
    }

    /** Pauses a schedule for a duration. */
    public CompletableFuture<Schedule> pauseSchedule(String name, Duration time) {
        return ask(name, "pause", Map.of("until", Fields.duration(time))).send(Schedule::new);
    }

    /** Ends a pause. The occurrences of the pause are left out, or with catchUp pushed as {@code missed} says. */
    public CompletableFuture<Schedule> resumeSchedule(String name, boolean catchUp) {
        return ask(name, "resume", Map.of("catch_up", catchUp)).send(Schedule::new);
    }

    /** Pushes a job of a schedule now, and returns its id. The next occurrence is pushed nevertheless. */
    public CompletableFuture<String> runSchedule(String name) {
        return request("POST", schedulePath(name) + "/run").send(fields -> Fields.text(fields, "id"));
    }

    /**
     * Pushes the occurrences from a time on, before another, that have no job; at most 1,000.
     *
     * @param overlap skip, replace or allow; null: allow
     * @param dryRun  push none
     */
    public CompletableFuture<Backfilled> backfillSchedule(
            String name, Instant from, Instant to, String overlap, boolean dryRun) {
        var backfill = new LinkedHashMap<String, Object>(Map.of("from", from, "to", to, "dry_run", dryRun));
        if (overlap != null) {
            backfill.put("overlap", overlap);
        }
        return ask(name, "backfill", backfill).send(Backfilled::new);
    }

    // Tasks

    /** Starts a task, which does one thing to all jobs that match a filter, and returns it. It goes on by itself. */
    public CompletableFuture<Task> startTask(TaskSettings task) {
        String key = task.idempotencyKey == null ? UUID.randomUUID().toString() : task.idempotencyKey;
        return request("POST", "/v1/tasks").json(task.encode()).header("Idempotency-Key", key).repeatable(true)
            .send(Task::new);
    }

    /** Returns a task. */
    public CompletableFuture<Task> task(String id) {
        return request("GET", "/v1/tasks/" + escape(id)).repeatable(true).send(Task::new);
    }

    /** Returns up to limit tasks that the token may see, newest first. */
    public CompletableFuture<List<Task>> tasks(int limit) {
        return request("GET", "/v1/tasks").query("limit", limit).repeatable(true)
            .send(fields -> Fields.list(fields, "tasks", task -> new Task(Fields.object(task))));
    }

    /** Asks a task to end, and returns it. What it has done stays. */
    public CompletableFuture<Task> cancelTask(String id) {
        return request("DELETE", "/v1/tasks/" + escape(id)).repeatable(true).send(Task::new);
    }

    // Pull topics

    /** Reserves up to max ready jobs of pull topics; waits for the first one. ttr null: the job's, or its topic's. */
    public CompletableFuture<List<LeasedJob>> reserve(List<String> topics, int max, Duration wait, Duration ttr) {
        return reserve(topics, max, wait, ttr, null);
    }

    /** And in an order: fair, by priorities and round robin over the topics, or listed; null: fair. */
    public CompletableFuture<List<LeasedJob>> reserve(
            List<String> topics, int max, Duration wait, Duration ttr, String order) {
        var ask = new LinkedHashMap<String, Object>(Map.of("topics", topics, "max", max, "wait", wait));
        if (ttr != null) {
            ask.put("ttr", ttr);
        }
        if (order != null) {
            ask.put("order", order);
        }
        return request("POST", "/v1/reserve").body(ask).waits(wait)
            .send(fields -> Fields.list(fields, "jobs", job -> new LeasedJob(Fields.object(job))));
    }

    /** Ends the lease of a job that is done. */
    public CompletableFuture<Void> ack(String lease) {
        return end(lease, "ack", Map.of()).send();
    }

    /** Ends the lease of a job that is done with a result, any value that {@link Json#write} accepts. */
    public CompletableFuture<Void> ack(String lease, Object result) {
        return end(lease, "ack", Collections.singletonMap("result", result)).send();
    }

    /** Makes a job ready again after a delay; the attempt is not counted. */
    public CompletableFuture<Void> release(String lease, Duration delay) {
        return end(lease, "release", Map.of("delay", delay)).send();
    }

    /** Ends a failed attempt: the job is retried by its schedule, or dead after its last attempt. */
    public CompletableFuture<Void> fail(String lease, String reason) {
        return end(lease, "fail", Map.of("reason", Fields.cut(reason))).send();
    }

    /** Makes a job dead. */
    public CompletableFuture<Void> bury(String lease, String reason) {
        return end(lease, "bury", Map.of("reason", Fields.cut(reason))).send();
    }

    /** Makes a lease last for ttr from now; null: for the TTR of the job, or of its topic. Returns when it expires. */
    public CompletableFuture<Instant> extend(String lease, Duration ttr) {
        return end(lease, "extend", ttr == null ? Map.of() : Map.of("ttr", ttr))
            .send(fields -> Fields.time(fields, "leased_until"));
    }

    // Requests

    private Request request(String method, String path) {
        return transport.request(method, path);
    }

    Request end(String lease, String verb, Map<String, Object> ask) {
        return request("POST", "/v1/leases/" + escape(lease) + "/" + verb).body(ask).repeatable(true);
    }

    private Request ask(String schedule, String action, Map<String, Object> what) {
        return request("POST", schedulePath(schedule) + "/" + action).body(what).repeatable(true);
    }

    private CompletableFuture<Long> dead(String topic, String action, DeadJobs which) {
        return request("POST", topicPath(topic) + "/dead/" + action).json(which.encode())
            .repeatable(which.members.containsKey("dry_run")).send(fields -> Fields.number(fields, "count"));
    }

    private CompletableFuture<Topic> pause(String topic, String reason, Object until) {
        var ask = new LinkedHashMap<String, Object>();
        ask.put("reason", reason);
        ask.put("until", until);
        ask.values().removeIf(Objects::isNull);
        return request("POST", topicPath(topic) + "/pause").body(ask).repeatable(true).send(Topic::new);
    }

    private CompletableFuture<GroupMoved> moveGroup(
            String name, Map<String, Object> move, String idempotencyKey, boolean repeatable) {
        return request("PATCH", groupPath(name)).body(move).header("Idempotency-Key", idempotencyKey)
            .repeatable(repeatable).send(GroupMoved::new);
    }

    private static List<PushResult> results(List<Push> jobs, Map<String, Object> fields) {
        List<Map<String, Object>> results = Fields.list(fields, "results", Fields::object);
        if (results.size() != jobs.size()) {
            throw new IllegalStateException("got " + results.size() + " results for " + jobs.size() + " jobs");
        }
        var all = new ArrayList<PushResult>();
        for (Map<String, Object> result : results) {
            all.add(result(result, jobs.get(all.size()).id()));
        }
        return all;
    }

    private static PushResult result(Map<String, Object> result, String id) {
        Map<String, Object> problem = Fields.object(result.get("error"));
        if (problem == null) {
            return new PushResult(new Job(result), null);
        }
        int status = (int) Fields.number(problem, "status");
        return new PushResult(null, new Problem(status, problem, "", Duration.ZERO, id).exception());
    }

    private static <T> Page<T> page(Map<String, Object> fields, String name, Function<Map<String, Object>, T> item) {
        List<T> items = Fields.list(fields, name, one -> item.apply(Fields.object(one)));
        return new Page<>(items, Fields.text(fields, "next"));
    }

    private static String escape(String s) {
        return Transport.escape(s);
    }

    private static String topicPath(String topic) {
        return "/v1/topics/" + escape(topic);
    }

    private static String jobsPath(String topic) {
        return topicPath(topic) + "/jobs";
    }

    private static String jobPath(String topic, String id) {
        return jobsPath(topic) + "/" + escape(id);
    }

    private static String groupPath(String name) {
        return "/v1/groups/" + escape(name);
    }

    private static String schedulePath(String name) {
        return "/v1/schedules/" + escape(name);
    }
}
