package io.github.wakecall;

import java.time.Duration;
import java.util.Map;

/** The server refused a request: RFC 9457's problem details. Its subclasses say what to do about it. */
public class ApiException extends WakecallException {
    private static final long serialVersionUID = 1;

    /** The HTTP status. */
    public final int status;
    /** What kind of problem it is: a fixed word such as job_exists. The API page lists them. */
    public final String code;
    /** The status's text. */
    public final String title;
    /** What is wrong, and how to fix it. */
    public final String detail;
    /** The field of the request that caused it, or "". */
    public final String field;
    /** Finds the request in the server's log. */
    public final String requestId;
    /** How long to wait before a retry. */
    public final Duration retryAfter;
    /** The id of the job that was pushed, or "". */
    public final String id;

    ApiException(Problem problem) {
        super(problem.message(), null);
        status = problem.status;
        code = problem.text("code");
        title = problem.text("title");
        detail = problem.text("detail");
        field = problem.text("field");
        requestId = problem.requestId;
        retryAfter = problem.retryAfter;
        id = problem.text("id").isEmpty() ? problem.id : problem.text("id");
    }

    /** What an answer says about a refusal. */
    static final class Problem {
        private final int status;
        private final Map<String, Object> members;
        private final String requestId;
        private final Duration retryAfter;
        private final String id; // of the job that was to be pushed

        Problem(int status, Map<String, Object> members, String requestId, Duration retryAfter, String id) {
            this.status = status;
            this.members = members;
            this.requestId = requestId;
            this.retryAfter = retryAfter;
            this.id = id;
        }

        private String text(String name) {
            return Fields.text(members, name);
        }

        private String message() {
            String text = text("detail").isEmpty() ? text("title") : text("detail");
            text = text.isEmpty() ? "status " + status : text;
            return text.contains(text("field")) ? text : text("field") + ": " + text;
        }

        /** Returns the exception of the class that says what to do. */
        ApiException exception() {
            switch (text("code")) {
                case "group_closed":
                    return new GroupClosedException(this);
                case "lease_over":
                    return new LeaseOverException(this);
                default:
            }
            switch (status) {
                case 400: case 405: case 413: case 415: case 422:
                    return new InvalidException(this);
                case 401:
                    return new UnauthorizedException(this);
                case 403:
                    return new ForbiddenException(this);
                case 404:
                    return new NotFoundException(this);
                case 409:
                    return new ConflictException(this);
                case 412:
                    return new ChangedException(this);
                case 429:
                    return new RateLimitedException(this);
                case 408: case 502: case 503: case 504:
                    return new UnavailableException(this);
                default:
                    return new ApiException(this);
            }
        }
    }
}
