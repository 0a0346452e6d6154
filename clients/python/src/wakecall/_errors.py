from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type

from ._types import Duration


class WakecallError(Exception):
    """Every error of this package."""


class ApiError(WakecallError):
    """The server refused a request: RFC 9457's problem details. Its subclasses say what to do about it."""

    status: int
    """The HTTP status."""
    code: str
    """What kind of problem it is: a fixed word such as "job_exists". The API page lists them."""
    title: str
    """The status's text."""
    detail: str
    """What is wrong, and how to fix it."""
    field: str
    """The field of the request that caused it, or ""."""
    request_id: str
    """Finds the request in the server's log."""
    retry_after: int
    """Seconds to wait before a retry."""
    id: str
    """The id of the job that was pushed, or ""."""

    def __init__(
        self, status: int, problem: Mapping[str, Any], request_id: str = "", retry_after: int = 0, id: str = ""
    ) -> None:
        self.status, self.request_id, self.retry_after = status, request_id, retry_after
        self.code, self.title = str(problem.get("code", "")), str(problem.get("title", ""))
        self.detail, self.field = str(problem.get("detail", "")), str(problem.get("field", ""))
        self.id = str(problem.get("id") or id)
        text = self.detail or self.title or f"status {status}"
        super().__init__(text if self.field in text else f"{self.field}: {text}")


class InvalidError(ApiError):
    """The request is malformed, out of range or too large. Correct it; `field` names the field."""


class UnauthorizedError(ApiError):
    """The token is missing, unknown, revoked or expired. Use another one."""


class ForbiddenError(ApiError):
    """The token lacks a right, which `detail` names. Ask for it."""


class NotFoundError(ApiError):
    """There is no such topic, job, schedule or task; `code` says which."""


class ConflictError(ApiError):
    """The state of the topic or job does not allow it; `code` says why."""


class GroupClosedError(ConflictError):
    """The group of the job is closed: what it is about has ended. Leave the job out."""


class LeaseOverError(ConflictError):
    """The lease expired or already ended. Drop the work: another worker may have the job."""


class ChangedError(ApiError):
    """The job or topic has changed since its etag was read. Read it again."""


class RateLimitedError(ApiError):
    """A limit or quota is reached, and nothing was done. Try again after `retry_after` seconds."""


class UnavailableError(ApiError):
    """It cannot be done now. Try again after `retry_after` seconds; a push with the same id."""


class UnreachableError(WakecallError):
    """There was no answer."""

    outcome_unknown: bool
    """The request may have been carried out: push again with the same id."""
    id: str
    """The id of the job that was pushed, or ""."""

    def __init__(self, text: str, outcome_unknown: bool) -> None:
        self.outcome_unknown, self.id = outcome_unknown, ""
        super().__init__(text)


class UnreadableError(WakecallError):
    """Python cannot decode the body of a job: an integer has too many digits, for example. Its bytes are in
    job["body_base64"]. A worker releases the job for a minute."""


class SignatureError(WakecallError):
    """A callback does not have a valid signature. Answer 401."""


class Released(Exception):
    """Raised by a handler that cannot do a job now: it is ready again after `delay`; the attempt is not counted."""

    def __init__(self, delay: Duration = 0) -> None:
        self.delay = delay
        super().__init__(f"released for {delay}")


class Buried(Exception):
    """Raised by a handler that can never do a job: it is dead at once."""


_BY_CODE: Dict[str, Type[ApiError]] = {"group_closed": GroupClosedError, "lease_over": LeaseOverError}
_BY_STATUS: Dict[int, Type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: InvalidError,
    408: UnavailableError,
    409: ConflictError,
    412: ChangedError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
    429: RateLimitedError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def api_error(
    status: int, problem: Mapping[str, Any], request_id: str = "", retry_after: int = 0, id: str = ""
) -> ApiError:
    kind = _BY_CODE.get(problem.get("code", ""), _BY_STATUS.get(status, ApiError))
    return kind(status, problem, request_id, retry_after, id)


def is_temporary(error: Optional[Exception]) -> bool:
    if isinstance(error, ApiError):
        return error.status >= 500 or error.status in (408, 429)
    return isinstance(error, UnreachableError)
