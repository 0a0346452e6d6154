package io.github.wakecall;

/** It cannot be done now. Try again after {@code retryAfter}; a push with the same id. */
public final class UnavailableException extends ApiException {
    private static final long serialVersionUID = 1;

    UnavailableException(Problem problem) {
        super(problem);
    }
}
