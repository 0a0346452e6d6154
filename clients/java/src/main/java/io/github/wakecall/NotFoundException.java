package io.github.wakecall;

/** There is no such topic, job, schedule or task; {@code code} says which. */
public final class NotFoundException extends ApiException {
    private static final long serialVersionUID = 1;

    NotFoundException(Problem problem) {
        super(problem);
    }
}
