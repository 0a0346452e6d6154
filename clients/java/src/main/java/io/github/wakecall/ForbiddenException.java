package io.github.wakecall;

/** The token lacks a right, which {@code detail} names. Ask for it. */
public final class ForbiddenException extends ApiException {
    private static final long serialVersionUID = 1;

    ForbiddenException(Problem problem) {
        super(problem);
    }
}
