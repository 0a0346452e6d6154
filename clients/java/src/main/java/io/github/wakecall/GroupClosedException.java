package io.github.wakecall;

/** The group of the job is closed: what it is about has ended. Leave the job out. */
public final class GroupClosedException extends ConflictException {
    private static final long serialVersionUID = 1;

    GroupClosedException(Problem problem) {
        super(problem);
    }
}
