import io.github.wakecall.ApiException;
import io.github.wakecall.Buried;
import io.github.wakecall.Change;
import io.github.wakecall.DeadJobs;
import io.github.wakecall.Found;
import io.github.wakecall.Group;
import io.github.wakecall.GroupMoved;
import io.github.wakecall.Job;
import io.github.wakecall.JobFilter;
import io.github.wakecall.Json;
import io.github.wakecall.LeasedJob;
import io.github.wakecall.Push;
import io.github.wakecall.PushResult;
import io.github.wakecall.Released;
import io.github.wakecall.Schedule;
import io.github.wakecall.ScheduleSettings;
import io.github.wakecall.Task;
import io.github.wakecall.TaskSettings;
import io.github.wakecall.Topic;
import io.github.wakecall.TopicSettings;
import io.github.wakecall.UnreachableException;
import io.github.wakecall.UnreadableException;
import io.github.wakecall.Wakecall;
import io.github.wakecall.WorkOptions;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Runs commands of clients_test.go with the client for Java: a JSON object a line in, its outcome a line out.
 * {@code Driver work TOPIC} works a pull topic until SIGTERM; a job's body says what its handler does.
 */
@SuppressWarnings("unchecked")
public class Driver {
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    static final Map<Object, Wakecall> CLIENTS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            work(args[1]);
            return;
        }
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null;) {
            var answer = new LinkedHashMap<String, Object>();
            try {
                answer.put("value", run((Map<String, Object>) Json.parse(line)));
            } catch (Exception e) {
                answer = outcome(e);
            }
            OUT.println(Json.write(answer));
        }
    }

    static Wakecall client(Map<String, Object> options) {
        return CLIENTS.computeIfAbsent(options, o -> {
            var client = new Wakecall((String) options.get("url"), (String) options.get("token"))
                .timeout(duration(options.getOrDefault("timeout", 30L)));
            return options.containsKey("retry_for") ? client.retryFor(duration(options.get("retry_for"))) : client;
        });
    }

    static Duration duration(Object seconds) {
        return seconds == null ? null : Duration.ofMillis((long) (((Number) seconds).doubleValue() * 1000));
    }

    static Object run(Map<String, Object> c) throws Exception {
        Wakecall k = client((Map<String, Object>) c.get("client"));
        String topic = (String) c.get("topic");
        String id = (String) c.get("id");
        String lease = (String) c.get("lease");
        String name = (String) c.get("name");
        var args = (List<Object>) c.getOrDefault("args", List.of());
        switch ((String) c.get("op")) {
            case "push":
                Push push = push((Map<String, Object>) c.get("push"));
                if (c.containsKey("due")) {
                    push.dueAt(Instant.parse((String) c.get("due")));
                }
                return k.push(topic, push).fields;
            case "push_batch":
                var pushes = new ArrayList<Push>();
                for (Object p : (List<Object>) c.get("pushes")) {
                    pushes.add(push((Map<String, Object>) p));
                }
                var results = new ArrayList<Object>();
                for (PushResult result : k.pushBatch(pushes)) {
                    results.add(result.error == null ? result.job.fields : outcome(result.error));
                }
                return results;
            case "get":
                return k.get(topic, id).fields;
            case "run":
                return k.run(topic, id).fields;
            case "change":
                return k.change(topic, id, change((Map<String, Object>) c.get("push"), (String) c.get("etag"))).fields;
            case "jobs":
                var jobs = new ArrayList<Object>();
                for (Job job : k.jobs(topic, (String) c.get("state"), filter(c))) {
                    jobs.add(job.fields);
                }
                return jobs;
            case "retry_dead":
                return k.retryDead(topic, dead((Map<String, Object>) c.get("how")));
            case "delete_dead":
                return k.deleteDead(topic, dead((Map<String, Object>) c.get("how")));
            case "search":
                Found found = k.search(id, topic);
                return found.fields;
            case "topics":
                var topics = new ArrayList<Object>();
                for (Topic one : k.topics((String) c.get("prefix"), (String) c.get("state"), (String) c.get("owner"))) {
                    topics.add(one.fields);
                }
                return topics;
            case "topic":
                return k.topic(name).fields;
            case "put_topic":
                var members = (Map<String, Object>) c.get("settings");
                if (members.containsKey("etag")) { // a topic as it was read
                    return k.putTopic(name, TopicSettings.of(k.topic(name))).fields;
                }
                var settings = new TopicSettings().ifMatch((String) c.get("etag")).reason((String) c.get("reason"));
                members.forEach(settings::set);
                return k.putTopic(name, settings).fields;
            case "patch_topic":
                var patch = new TopicSettings().ifMatch((String) c.get("etag"));
                ((Map<String, Object>) c.get("patch")).forEach(patch::set);
                return k.patchTopic(name, patch).fields;
            case "pause_topic":
                return pauseTopic(k, name, c).fields;
            case "resume_topic":
                return k.resumeTopic(name).fields;
            case "delete_topic":
                k.deleteTopic(name, Boolean.TRUE.equals(c.get("drop")), false, null);
                return null;
            case "cancelled_reserve":
                var call = k.async().reserve(List.of(topic), 1, Duration.ofSeconds(20), null);
                Thread.sleep(500);
                if (!call.cancel(true)) {
                    throw new IllegalStateException("it was not cancelled");
                }
                return null;
            case "delete":
                k.delete(topic, id, (String) c.get("etag"));
                return null;
            case "group":
                Long limit = (Long) c.get("limit");
                return group(limit == null ? k.group(name) : k.group(name, limit.intValue()));
            case "cancel_group":
                var done = c.containsKey("close") ? k.cancelGroup(name, duration(c.get("close"))) : k.cancelGroup(name);
                return Map.of("deleted", done.deleted, "running", done.running, "pending", done.pending);
            case "move_group":
                return moveGroup(k, name, c);
            case "start_task":
                return k.startTask(task((Map<String, Object>) c.get("task"), (String) c.get("key"))).fields;
            case "task":
                return k.task(name).fields;
            case "tasks":
                var tasks = new ArrayList<Object>();
                for (Task task : k.tasks(((Long) c.get("limit")).intValue())) {
                    tasks.add(task.fields);
                }
                return tasks;
            case "cancel_task":
                return k.cancelTask(name).fields;
            case "schedules":
                var schedules = new ArrayList<Object>();
                for (Schedule schedule : k.schedules(topic)) {
                    schedules.add(schedule(schedule));
                }
                return schedules;
            case "schedule":
                return schedule(k.schedule(name));
            case "put_schedule":
                return schedule(putSchedule(k, name, (Map<String, Object>) c.get("schedule")));
            case "delete_schedule":
                k.deleteSchedule(name);
                return null;
            case "pause_schedule":
                return schedule(pauseSchedule(k, name, c));
            case "resume_schedule":
                return schedule(k.resumeSchedule(name, (Boolean) c.get("catch_up")));
            case "run_schedule":
                return Map.of("id", k.runSchedule(name));
            case "backfill_schedule":
                var filled = k.backfillSchedule(name, Instant.parse((String) c.get("from")),
                    Instant.parse((String) c.get("to")), (String) c.get("overlap"), (Boolean) c.get("dry_run"));
                return Map.of("occurrences", texts(filled.occurrences), "pushed", filled.pushed,
                    "existing", filled.existing, "left_out", filled.leftOut);
            case "reserve":
                var leased = new ArrayList<Object>();
                int max = ((Long) c.get("max")).intValue();
                var wait = duration(c.get("wait"));
                var ttr = duration(c.get("ttr"));
                for (LeasedJob job : k.reserve(List.of(topic), max, wait, ttr, (String) c.get("order"))) {
                    leased.add(job.fields);
                }
                return leased;
            case "drain":
                return drain(k, topic);
            case "verify":
                var headers = (Map<String, String>) (Map<?, ?>) (Map<String, Object>) c.get("headers");
                Wakecall.verify((List<String>) (List<?>) (List<Object>) c.get("secrets"), headers::get,
                    ((String) c.get("body")).getBytes(StandardCharsets.UTF_8));
                return null;
            case "ack":
                if (args.isEmpty()) {
                    k.ack(lease);
                } else {
                    k.ack(lease, args.get(0));
                }
                return null;
            case "release":
                k.release(lease, duration(args.get(0)));
                return null;
            case "fail":
                k.fail(lease, (String) args.get(0));
                return null;
            case "bury":
                k.bury(lease, (String) args.get(0));
                return null;
            case "extend":
                return Map.of("leased_until", k.extend(lease, duration(args.get(0))).toString());
            default:
                throw new IllegalArgumentException(String.valueOf(c.get("op")));
        }
    }

    static Object group(Group group) {
        var jobs = new ArrayList<Object>();
        for (Job job : group.jobs) {
            jobs.add(job.fields);
        }
        var value = new LinkedHashMap<String, Object>(group.fields);
        value.put("jobs", jobs);
        value.put("counts", Map.of("delayed", group.delayed, "ready", group.ready, "running", group.running,
            "dead", group.dead));
        value.put("closed_until", group.closedUntil == null ? null : group.closedUntil.toString());
        return value;
    }

    static Object moveGroup(Wakecall k, String name, Map<String, Object> c) {
        var move = (Map<String, Object>) c.get("move");
        GroupMoved n;
        if (c.containsKey("due")) {
            n = k.moveGroup(name, Instant.parse((String) c.get("due")));
        } else if (move.containsKey("shift") && c.get("key") == null) {
            n = k.shiftGroup(name, duration(move.get("shift")));
        } else if (move.containsKey("shift")) {
            n = k.shiftGroup(name, duration(move.get("shift")), (String) c.get("key"));
        } else {
            n = k.moveGroup(name, duration(move.get("delay")));
        }
        return Map.of("moved", n.moved, "skipped", n.skipped);
    }

    static Object schedule(Schedule schedule) {
        var value = new LinkedHashMap<String, Object>(schedule.fields);
        var last = new ArrayList<Object>();
        for (Schedule.Occurrence o : schedule.last) {
            last.add(Map.of("id", o.id, "scheduled_for", o.scheduledFor.toString(), "state", o.state));
        }
        value.put("last", last);
        value.put("left_out", schedule.leftOut);
        value.put("next", texts(schedule.next));
        value.put("body", schedule.body());
        return value;
    }

    static Topic pauseTopic(Wakecall k, String name, Map<String, Object> c) {
        String reason = (String) c.get("reason");
        if (c.containsKey("for")) {
            return k.pauseTopic(name, reason, duration(c.get("for")));
        }
        return c.containsKey("until") ? k.pauseTopic(name, reason, Instant.parse((String) c.get("until")))
            : k.pauseTopic(name, reason);
    }

    static Schedule pauseSchedule(Wakecall k, String name, Map<String, Object> c) {
        if (c.containsKey("for")) {
            return k.pauseSchedule(name, duration(c.get("for")));
        }
        return c.containsKey("until") ? k.pauseSchedule(name, Instant.parse((String) c.get("until")))
            : k.pauseSchedule(name);
    }

    static List<Object> texts(List<Instant> instants) {
        var texts = new ArrayList<Object>();
        for (Instant t : instants) {
            texts.add(t.toString());
        }
        return texts;
    }

    static Schedule putSchedule(Wakecall k, String name, Map<String, Object> members) {
        var schedule = new ScheduleSettings();
        members.forEach((member, value) -> {
            if (member.equals("json")) {
                schedule.json((String) value);
            } else if (member.equals("body")) {
                schedule.body(value);
            } else {
                schedule.set(member, value);
            }
        });
        return k.putSchedule(name, (String) members.get("topic"), schedule);
    }

    static Object drain(Wakecall k, String topic) {
        var read = new ArrayList<Object>();
        var unreadable = new ArrayList<Object>();
        for (LeasedJob job : k.reserve(List.of(topic), 100, Duration.ZERO, null)) {
            try {
                job.body();
                read.add(job.id);
                k.ack(job.lease);
            } catch (UnreadableException e) {
                unreadable.add(job.id);
                k.release(job.lease, Duration.ofHours(1));
            }
        }
        return Map.of("read", read, "unreadable", unreadable);
    }

    static Push push(Map<String, Object> members) {
        var push = new Push();
        members.forEach((name, value) -> {
            if (name.equals("body")) {
                push.body(value);
            } else if (name.equals("json")) {
                push.json((String) value);
            } else if (name.equals("delay") && value instanceof Number) {
                push.delay(duration(value));
            } else if (name.equals("ttr") && value instanceof Number) {
                push.ttr(duration(value));
            } else {
                push.set(name, value);
            }
        });
        return push;
    }

    static Change change(Map<String, Object> members, String etag) {
        var change = new Change().ifMatch(etag);
        members.forEach((name, value) -> {
            if (name.equals("body")) {
                change.body(value);
            } else if (name.equals("json")) {
                change.json((String) value);
            } else {
                change.set(name, value);
            }
        });
        return change;
    }

    static JobFilter filter(Map<String, Object> c) {
        var filter = new JobFilter();
        ((Map<String, Object>) c.getOrDefault("filter", Map.of())).forEach(filter::set);
        return filter;
    }

    static DeadJobs dead(Map<String, Object> how) {
        if (how.containsKey("ids")) {
            return DeadJobs.ids((List<String>) how.get("ids"));
        }
        var dead = DeadJobs.oldest(((Long) how.get("limit")).intValue()).filter(filter(how));
        return how.containsKey("dry_run") ? dead.dryRun() : dead;
    }

    static TaskSettings task(Map<String, Object> members, String key) {
        var filter = (Map<String, Object>) members.get("filter");
        var task = new TaskSettings((String) members.get("action"), (String) filter.get("topic")).idempotencyKey(key);
        filter.forEach(task::filter);
        if (members.containsKey("by")) {
            task.set("by", members.get("by"));
        }
        return task;
    }

    static LinkedHashMap<String, Object> outcome(Exception e) {
        var error = new LinkedHashMap<String, Object>();
        error.put("kind", e.getClass().getSimpleName().replace("Exception", "Error"));
        error.put("text", String.valueOf(e.getMessage()));
        if (e instanceof ApiException) {
            var a = (ApiException) e;
            error.putAll(Map.of("status", a.status, "code", a.code, "title", a.title, "detail", a.detail,
                "field", a.field, "request_id", a.requestId, "id", a.id));
        }
        if (e instanceof UnreachableException) {
            var u = (UnreachableException) e;
            error.putAll(Map.of("outcome_unknown", u.outcomeUnknown, "id", u.id));
        }
        return new LinkedHashMap<>(Map.of("error", error));
    }

    static void work(String topic) {
        var stop = new AtomicBoolean();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            OUT.println("stopping");
            stop.set(true);
            try {
                main.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        var k = new Wakecall(System.getenv("WAKECALL_URL"), System.getenv("WAKECALL_TOKEN"));
        var options = new WorkOptions().wait(Duration.ofSeconds(1)).failed(Throwable::printStackTrace);
        k.work(List.of(topic), Driver::handle, stop::get, options);
    }

    static Object handle(LeasedJob job) throws Exception {
        OUT.println(Json.write(Map.of("id", job.id, "attempt", job.attempt)));
        switch (String.valueOf(job.body())) {
            case "fail":
                throw new IllegalStateException("it failed: ü" + "ü".repeat(400));
            case "release":
                throw new Released(Duration.ofHours(1));
            case "bury":
                throw new Buried("never");
            case "slow":
                Thread.sleep(2500);
                break;
            case "hang":
                Thread.sleep(600_000);
                break;
            default:
        }
        return null;
    }
}
