package io.github.wakecall;

import java.time.Instant;

/** Selects dead jobs. */
public final class JobFilter extends Members<JobFilter> {
    /** Beginning of the id; also of done jobs. */
    public JobFilter prefix(String prefix) {
        return set("prefix", prefix);
    }

    /** Status of the last answer. */
    public JobFilter status(int status) {
        return set("status", status);
    }

    /** Text in the last error. */
    public JobFilter error(String text) {
        return set("error", text);
    }

    /** Why the job is dead. */
    public JobFilter reason(String reason) {
        return set("reason", reason);
    }

    /** It became dead then or later. */
    public JobFilter since(Instant t) {
        return set("since", t);
    }

    /** It became dead before. */
    public JobFilter until(Instant t) {
        return set("until", t);
    }
}
