package io.github.wakecall;

import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A client of one server, with the JDK only. Threads may share it.
 *
 * <pre>
 * var wakecall = new Wakecall("http://127.0.0.1:6789", token);
 * Job job = wakecall.push("order.close",
 *     new Push().id("order-42").body(Map.of("order", 42)).delay(Duration.ofMinutes(30)));
 * </pre>
 *
 * A refusal by the server throws a subclass of {@link ApiException} that says what to do, a lost or impossible
 * connection an {@link UnreachableException}.
 */
public final class Wakecall {
    private final Transport transport;
    private final WakecallAsync async;

    /** With an HttpClient of its own. */
    public Wakecall(String url, String token) {
        this(url, token, HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(10)).build());
    }

    /** With an HttpClient of yours, which must not follow redirects: a write would become a read. */
    public Wakecall(String url, String token, HttpClient http) {
        transport = new Transport(url, token, http);
        async = new WakecallAsync(transport);
    }

    /** Sets how long a whole request may take; 30 seconds at first. */
    public Wakecall timeout(Duration d) {
        transport.timeout = d;
        return this;
    }

    /**
     * Sets for how long requests that are safe to repeat are repeated after 429, 503 or a lost connection; 10 seconds
     * at first.
     */
    public Wakecall retryFor(Duration d) {
        transport.retryFor = d;
        return this;
    }

    /** Returns the same calls with CompletableFuture. */
    public WakecallAsync async() {
        return async;
    }

    // Jobs

    /** Pushes a job, and returns it as the server stored it. */
    public Job push(String topic, Push job) {
        return await(async.push(topic, job));
    }

    /**
     * Pushes up to 1,000 jobs, each with its topic. Returns their results in their order. A refused job does not fail
     * the others.
     */
    public List<PushResult> pushBatch(List<Push> pushes) {
        return await(async.pushBatch(pushes));
    }

    /** Returns a job with its attempts. */
    public Job get(String topic, String id) {
        return await(async.get(topic, id));
    }

    /**
     * Returns the jobs of a topic in a state: delayed, ready, running, dead or done. The filter is for dead jobs, its
     * prefix also for done ones; null: all. Listed jobs have neither body nor history. Pages are read as the iteration
     * gets to them.
     */
    public Iterable<Job> jobs(String topic, String state, JobFilter filter) {
        return pages(cursor -> async.jobs(topic, state, filter, cursor));
    }

    /** Changes a delayed or ready job. */
    public Job change(String topic, String id, Change change) {
        return await(async.change(topic, id, change));
    }

    /** Deletes a job. No callback starts after this has returned. */
    public void delete(String topic, String id) {
        await(async.delete(topic, id));
    }

    /** Deletes a job if it has not changed since it was read with this etag. */
    public void delete(String topic, String id, String etag) {
        await(async.delete(topic, id, etag));
    }

    /** Makes a job due now; a dead job starts again at attempt 1. */
    public Job run(String topic, String id) {
        return await(async.run(topic, id));
    }

    /** Makes dead jobs ready again, with no attempts made. Returns their number. */
    public long retryDead(String topic, DeadJobs which) {
        return await(async.retryDead(topic, which));
    }

    /** Deletes dead jobs. Returns their number. */
    public long deleteDead(String topic, DeadJobs which) {
        return await(async.deleteDead(topic, which));
    }

    /**
     * Returns what the shards and the journals of all hosts have of an id. Large journals take minutes. topic null:
     * all.
     */
    public Found search(String id, String topic) {
        return await(async.search(id, topic));
    }

    // Topics

    /**
     * Returns the topics that the token may manage, by name, whose names begin with a prefix, in a state, and of an
     * owner; null: all. Pages are read as the iteration gets to them.
     */
    public Iterable<Topic> topics(String prefix, String state, String owner) {
        return pages(cursor -> async.topics(prefix, state, owner, cursor));
    }

    /** Returns a topic. */
    public Topic topic(String name) {
        return await(async.topic(name));
    }

    /** Creates a topic, or replaces it as a whole. */
    public Topic putTopic(String name, TopicSettings settings) {
        return await(async.putTopic(name, settings));
    }

    /**
     * Changes the settings that are set (a JSON merge patch): null resets one to its default; headers and per_key are
     * merged.
     */
    public Topic patchTopic(String name, TopicSettings changes) {
        return await(async.patchTopic(name, changes));
    }

    /**
     * Pauses a topic until it is resumed. reason, for the others on call; null: none. If it is paused already, this
     * replaces its reason and end.
     */
    public Topic pauseTopic(String name, String reason) {
        return await(async.pauseTopic(name, reason));
    }

    /** Pauses a topic until a time. */
    public Topic pauseTopic(String name, String reason, Instant until) {
        return await(async.pauseTopic(name, reason, until));
    }

    /** Pauses a topic for a duration. */
    public Topic pauseTopic(String name, String reason, Duration time) {
        return await(async.pauseTopic(name, reason, time));
    }

    /** Makes a paused or offline topic active. */
    public Topic resumeTopic(String name) {
        return await(async.resumeTopic(name));
    }

    /** Deletes a topic that has no jobs and that no schedule uses. */
    public void deleteTopic(String name) {
        await(async.deleteTopic(name));
    }

    /**
     * Deletes a topic.
     *
     * @param drop  also deletes its jobs
     * @param force also deletes the schedules that use it
     * @param etag  if not null, the topic is deleted only if it has not changed since
     */
    public void deleteTopic(String name, boolean drop, boolean force, String etag) {
        await(async.deleteTopic(name, drop, force, etag));
    }

    // Groups

    /** Returns a group with up to 100 of its jobs. */
    public Group group(String name) {
        return await(async.group(name));
    }

    /** Returns a group with up to limit of its jobs. */
    public Group group(String name, int limit) {
        return await(async.group(name, limit));
    }

    /**
     * Deletes the waiting and dead jobs of a group, in all topics that the token may push to. No callback of them
     * starts after this has returned, except within 2 s on the shards that are pending.
     */
    public GroupCancelled cancelGroup(String name) {
        return await(async.cancelGroup(name));
    }

    /** And closes the group for a time: pushes into it are refused with a GroupClosedException. */
    public GroupCancelled cancelGroup(String name, Duration close) {
        return await(async.cancelGroup(name, close));
    }

    /** In the topics that match the patterns, separated by commas. close null: the group stays open. */
    public GroupCancelled cancelGroup(String name, Duration close, String topics) {
        return await(async.cancelGroup(name, close, topics));
    }

    /** Makes the delayed and ready jobs of a group due after a delay from now. */
    public GroupMoved moveGroup(String name, Duration delay) {
        return await(async.moveGroup(name, delay));
    }

    /** Makes the delayed and ready jobs of a group due at a time. */
    public GroupMoved moveGroup(String name, Instant dueAt) {
        return await(async.moveGroup(name, dueAt));
    }

    /** Moves each of the delayed and ready jobs of a group by a time, which may be negative. */
    public GroupMoved shiftGroup(String name, Duration shift) {
        return await(async.shiftGroup(name, shift));
    }

    /** And once within a day, however often it is called with the same key. */
    public GroupMoved shiftGroup(String name, Duration shift, String idempotencyKey) {
        return await(async.shiftGroup(name, shift, idempotencyKey));
    }

    // Schedules

    /**
     * Returns the schedules of a topic, or of null (all topics) that the token may read, by name. Pages are read as
     * the iteration gets to them.
     */
    public Iterable<Schedule> schedules(String topic) {
        return pages(cursor -> async.schedules(topic, cursor));
    }

    /** Returns a schedule. */
    public Schedule schedule(String name) {
        return await(async.schedule(name));
    }

    /** Creates a schedule, or replaces it as a whole. */
    public Schedule putSchedule(String name, String topic, ScheduleSettings settings) {
        return await(async.putSchedule(name, topic, settings));
    }

    /** Deletes a schedule. Its jobs stay. */
    public void deleteSchedule(String name) {
        await(async.deleteSchedule(name));
    }

    /** Pauses a schedule until it is resumed. */
    public Schedule pauseSchedule(String name) {
        return await(async.pauseSchedule(name));
    }

    /** Pauses a schedule until a time. */
    public Schedule pauseSchedule(String name, Instant until) {
        return await(async.pauseSchedule(name, until));
    }

    /** Pauses a schedule for a duration. */
    public Schedule pauseSchedule(String name, Duration time) {
        return await(async.pauseSchedule(name, time));
    }

    /** Ends a pause. The occurrences of the pause are left out, or with catchUp pushed as {@code missed} says. */
    public Schedule resumeSchedule(String name, boolean catchUp) {
        return await(async.resumeSchedule(name, catchUp));
    }

    /** Pushes a job of a schedule now, and returns its id. The next occurrence is pushed nevertheless. */
    public String runSchedule(String name) {
        return await(async.runSchedule(name));
    }

    /**
     * Pushes the occurrences from a time on, before another, that have no job; at most 1,000.
     *
     * @param overlap skip, replace or allow; null: allow
     * @param dryRun  push none
     */
    public Backfilled backfillSchedule(String name, Instant from, Instant to, String overlap, boolean dryRun) {
        return await(async.backfillSchedule(name, from, to, overlap, dryRun));
    }

    // Tasks

    /** Starts a task, which does one thing to all jobs that match a filter, and returns it. It goes on by itself. */
    public Task startTask(TaskSettings task) {
        return await(async.startTask(task));
    }

    /** Returns a task. */
    public Task task(String id) {
        return await(async.task(id));
    }

    /** Returns up to limit tasks that the token may see, newest first. */
    public List<Task> tasks(int limit) {
        return await(async.tasks(limit));
    }

    /** Asks a task to end, and returns it. What it has done stays. */
    public Task cancelTask(String id) {
        return await(async.cancelTask(id));
    }

    // Pull topics

    /** Reserves up to max ready jobs of pull topics; waits for the first one. ttr null: the job's, or its topic's. */
    public List<LeasedJob> reserve(List<String> topics, int max, Duration wait, Duration ttr) {
        return await(async.reserve(topics, max, wait, ttr));
    }

    /** And in an order: fair, by priorities and round robin over the topics, or listed; null: fair. */
    public List<LeasedJob> reserve(List<String> topics, int max, Duration wait, Duration ttr, String order) {
        return await(async.reserve(topics, max, wait, ttr, order));
    }

    /** Ends the lease of a job that is done. */
    public void ack(String lease) {
        await(async.ack(lease));
    }

    /** Ends the lease of a job that is done with a result, any value that {@link Json#write} accepts. */
    public void ack(String lease, Object result) {
        await(async.ack(lease, result));
    }

    /** Makes a job ready again after a delay; the attempt is not counted. */
    public void release(String lease, Duration delay) {
        await(async.release(lease, delay));
    }

    /** Ends a failed attempt: the job is retried by its schedule, or dead after its last attempt. */
    public void fail(String lease, String reason) {
        await(async.fail(lease, reason));
    }

    /** Makes a job dead. */
    public void bury(String lease, String reason) {
        await(async.bury(lease, reason));
    }

    /** Makes a lease last for ttr from now; null: for the TTR of the job, or of its topic. Returns when it expires. */
    public Instant extend(String lease, Duration ttr) {
        return await(async.extend(lease, ttr));
    }

    /** Works with a wait of 5 seconds. */
    public void work(List<String> topics, Handler handler, BooleanSupplier stopped) {
        work(topics, handler, stopped, new WorkOptions());
    }

    /**
     * Reserves jobs of pull topics one after the other, and calls the handler for each, until stopped returns true or
     * the thread is interrupted. When the handler returns, the job is done; what it returns is the result. Released and
     * Buried mean what their names say; any other exception fails the attempt. The lease is extended meanwhile. For
     * several jobs at once, call work in several threads.
     */
    public void work(List<String> topics, Handler handler, BooleanSupplier stopped, WorkOptions options) {
        new Worker(this, topics, handler, stopped, options).run();
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

    // Futures

    /** Returns what a call returns. The stack traces of its exceptions are those of the caller. */
    static <T> T await(CompletableFuture<T> call) {
        try {
            return call.get();
        } catch (InterruptedException e) {
            call.cancel(true);
            Thread.currentThread().interrupt();
            throw new UnreachableException("interrupted", true, "", e);
        } catch (ExecutionException e) {
            e.getCause().fillInStackTrace();
            if (e.getCause() instanceof RuntimeException) {
                throw (RuntimeException) e.getCause();
            }
            throw new IllegalStateException(e.getCause());
        }
    }

    private static <T> Iterable<T> pages(Function<String, CompletableFuture<Page<T>>> read) {
        return () -> new Iterator<T>() {
            private Page<T> page = await(read.apply(""));
            private int at;

            @Override
            public boolean hasNext() {
                while (at == page.items.size() && !page.next.isEmpty()) {
                    page = await(read.apply(page.next));
                    at = 0;
                }
                return at < page.items.size();
            }

            @Override
            public T next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return page.items.get(at++);
            }
        };
    }
}
