<?php

declare(strict_types=1);

namespace Wakecall;

/** It cannot be done now. Try again after `retryAfter` seconds; a push with the same id. */
final class UnavailableException extends ApiException
{
}
