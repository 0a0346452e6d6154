package io.github.wakecall;

/** Every error of this client. */
public abstract class WakecallException extends RuntimeException {
    private static final long serialVersionUID = 1;

    WakecallException(String message, Throwable cause) {
        super(message, cause);
    }
}
