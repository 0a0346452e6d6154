package io.github.wakecall;

/** The token is missing, unknown, revoked or expired. Use another one. */
public final class UnauthorizedException extends ApiException {
    private static final long serialVersionUID = 1;

    UnauthorizedException(Problem problem) {
        super(problem);
    }
}
