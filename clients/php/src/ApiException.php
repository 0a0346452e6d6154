<?php

declare(strict_types=1);

namespace Wakecall;

/** The server refused a request: RFC 9457's problem details. Its subclasses say what to do about it. */
class ApiException extends WakecallException
{
    private const BY_CODE = ['group_closed' => GroupClosedException::class, 'lease_over' => LeaseOverException::class];
    private const BY_STATUS = [
        400 => InvalidException::class,
        401 => UnauthorizedException::class,
        403 => ForbiddenException::class,
        404 => NotFoundException::class,
        405 => InvalidException::class,
        408 => UnavailableException::class,
        409 => ConflictException::class,
        412 => ChangedException::class,
        413 => InvalidException::class,
        415 => InvalidException::class,
        422 => InvalidException::class,
        429 => RateLimitedException::class,
        502 => UnavailableException::class,
        503 => UnavailableException::class,
        504 => UnavailableException::class,
    ];

    /** What kind of problem it is: a fixed word such as job_exists, `code` of the API, whose page lists them. */
    public readonly string $errorCode;
    /** The status's text. */
    public readonly string $title;
    /** What is wrong, and how to fix it. */
    public readonly string $detail;
    /** The field of the request that caused it, or ''. */
    public readonly string $field;
    /** The id of the job that was pushed, or ''. */
    public string $id;

    /**
     * @param string $requestId  finds the request in the server's log
     * @param int    $retryAfter seconds to wait before a retry
     */
    final public function __construct(
        public readonly int $status,
        array $problem,
        public readonly string $requestId = '',
        public readonly int $retryAfter = 0,
        string $id = '',
    ) {
        $this->errorCode = (string) ($problem['code'] ?? '');
        $this->title = (string) ($problem['title'] ?? '');
        $this->detail = (string) ($problem['detail'] ?? '');
        $this->field = (string) ($problem['field'] ?? '');
        $this->id = (string) ($problem['id'] ?? $id);
        $text = $this->detail ?: $this->title ?: "status $status";
        parent::__construct(str_contains($text, $this->field) ? $text : "$this->field: $text", $status);
    }

    /** Returns the exception of the class that says what to do. */
    public static function of(
        int $status,
        array $problem,
        string $requestId = '',
        int $retryAfter = 0,
        string $id = '',
    ): self {
        $class = self::BY_CODE[$problem['code'] ?? ''] ?? self::BY_STATUS[$status] ?? self::class;
        return new $class($status, $problem, $requestId, $retryAfter, $id);
    }
}
