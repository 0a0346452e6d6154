<?php

declare(strict_types=1);

namespace Wakecall;

/** The lease expired or already ended. Drop the work: another worker may have the job. */
final class LeaseOverException extends ConflictException
{
}
