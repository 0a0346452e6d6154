package io.github.wakecall;

/** The job or topic has changed since its etag was read. Read it again. */
public final class ChangedException extends ApiException {
    private static final long serialVersionUID = 1;

    ChangedException(Problem problem) {
        super(problem);
    }
}
