package io.github.wakecall;

/** The lease expired or already ended. Drop the work: another worker may have the job. */
public final class LeaseOverException extends ConflictException {
    private static final long serialVersionUID = 1;

    LeaseOverException(Problem problem) {
        super(problem);
    }
}
