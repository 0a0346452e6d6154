package io.github.wakecall;

/** A limit or quota is reached, and nothing was done. Try again after {@code retryAfter}. */
public final class RateLimitedException extends ApiException {
    private static final long serialVersionUID = 1;

    RateLimitedException(Problem problem) {
        super(problem);
    }
}
