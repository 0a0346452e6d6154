package io.github.wakecall;

/** The state of the topic or job does not allow it; {@code code} says why. */
public class ConflictException extends ApiException {
    private static final long serialVersionUID = 1;

    ConflictException(Problem problem) {
        super(problem);
    }
}
