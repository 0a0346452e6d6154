package io.github.wakecall;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** What a schedule is to be. One of cron and every, and a body are required. */
public final class ScheduleSettings extends Members<ScheduleSettings> {
    /** Five fields, such as 0 8 * * 1-5, in the time zone. */
    public ScheduleSettings cron(String cron) {
        return set("cron", cron);
    }

    /** Instead of cron; whole seconds. */
    public ScheduleSettings every(Duration d) {
        return set("every", d);
    }

    /** As Asia/Shanghai; UTC if it is not set. */
    public ScheduleSettings timeZone(String zone) {
        return set("time_zone", zone);
    }

    /** No occurrence is earlier. */
    public ScheduleSettings startAt(Instant t) {
        return set("start_at", t);
    }

    /** No occurrence is later. */
    public ScheduleSettings endAt(Instant t) {
        return set("end_at", t);
    }

    /** Of every job: any value that {@link Json#write} accepts. */
    public ScheduleSettings body(Object value) {
        return withBody(Json.write(value));
    }

    /** A body that is JSON, sent byte for byte. */
    public ScheduleSettings json(String json) {
        return withBody(json);
    }

    /** high, normal or low. */
    public ScheduleSettings priority(String priority) {
        return set("priority", priority);
    }

    /** Of every job. */
    public ScheduleSettings headers(Map<String, String> headers) {
        return set("headers", headers);
    }

    /** Each job is due up to this much later. */
    public ScheduleSettings jitter(Duration d) {
        return set("jitter", d);
    }

    /** What is pushed late: last, skip or all. */
    public ScheduleSettings missed(String what) {
        return set("missed", what);
    }

    /** No occurrence is pushed later than this. */
    public ScheduleSettings maxLate(Duration d) {
        return set("max_late", d);
    }

    /** While the previous occurrence has not ended: skip, replace or allow. */
    public ScheduleSettings overlap(String what) {
        return set("overlap", what);
    }

    /** active or paused. */
    public ScheduleSettings state(String state) {
        return set("state", state);
    }

    /** When a pause ends by itself. */
    public ScheduleSettings pausedUntil(Instant t) {
        return set("paused_until", t);
    }
}
