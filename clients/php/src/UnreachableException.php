<?php

declare(strict_types=1);

namespace Wakecall;

/** There was no answer. */
final class UnreachableException extends WakecallException
{
    /** The id of the job that was pushed, or ''. */
    public string $id = '';

    /** @param bool $outcomeUnknown the request may have been carried out: push again with the same id */
    public function __construct(string $message, public readonly bool $outcomeUnknown)
    {
        parent::__construct($message);
    }
}
