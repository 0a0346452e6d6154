package io.github.wakecall;

import java.util.List;

/** Which dead jobs to make ready again, or to delete. */
public final class DeadJobs extends Members<DeadJobs> {
    private DeadJobs() { }

    /** The dead jobs with these ids. */
    public static DeadJobs ids(List<String> ids) {
        return new DeadJobs().set("ids", ids);
    }

    /** The oldest, up to so many. */
    public static DeadJobs oldest(int limit) {
        return new DeadJobs().set("limit", limit);
    }

    /** Of the oldest, only those that it selects. */
    public DeadJobs filter(JobFilter filter) {
        return set("filter", filter.members);
    }

    /** Only counts them. */
    public DeadJobs dryRun() {
        return set("dry_run", true);
    }
}
