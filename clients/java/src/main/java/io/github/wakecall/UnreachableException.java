package io.github.wakecall;

/** There was no answer. */
public final class UnreachableException extends WakecallException {
    private static final long serialVersionUID = 1;

    /** The request may have been carried out: push again with the same id. */
    public final boolean outcomeUnknown;
    /** The id of the job that was pushed, or "". */
    public final String id;

    UnreachableException(String message, boolean outcomeUnknown, String id, Throwable cause) {
        super(message, cause);
        this.outcomeUnknown = outcomeUnknown;
        this.id = id;
    }
}
