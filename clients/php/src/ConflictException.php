<?php

declare(strict_types=1);

namespace Wakecall;

/** The state of the topic or job does not allow it; `errorCode` says why. */
class ConflictException extends ApiException
{
}
