package io.github.wakecall;

/**
 * The body of a job cannot be decoded; {@link LeasedJob#bytes} has it. A worker whose handler throws this releases the
 * job for a minute.
 */
public final class UnreadableException extends WakecallException {
    private static final long serialVersionUID = 1;

    UnreadableException(String message, Throwable cause) {
        super(message, cause);
    }
}
