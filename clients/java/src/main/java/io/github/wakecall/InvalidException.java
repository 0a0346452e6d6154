package io.github.wakecall;

/** The request is malformed, out of range or too large. Correct it; {@code field} names the field. */
public final class InvalidException extends ApiException {
    private static final long serialVersionUID = 1;

    InvalidException(Problem problem) {
        super(problem);
    }
}
