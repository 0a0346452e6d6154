<?php

declare(strict_types=1);

namespace Wakecall;

/** PHP cannot decode the body of a job. A worker releases the job for a minute, and does not call its function. */
final class UnreadableException extends WakecallException
{
}
