<?php

declare(strict_types=1);

namespace Wakecall;

/** Thrown by a handler that cannot do a job now: it is ready again after a delay; the attempt is not counted. */
final class Released extends \Exception
{
    public function __construct(public readonly string|int|float $delay = 0)
    {
        parent::__construct("released for $delay");
    }
}
