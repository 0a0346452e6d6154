package io.github.wakecall;

/** A callback does not have a valid signature. Answer 401. */
public final class SignatureException extends WakecallException {
    private static final long serialVersionUID = 1;

    SignatureException(String message) {
        super(message, null);
    }
}
