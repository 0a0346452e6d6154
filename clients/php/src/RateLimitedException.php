<?php

declare(strict_types=1);

namespace Wakecall;

/** A limit or quota is reached, and nothing was done. Try again after `retryAfter` seconds. */
final class RateLimitedException extends ApiException
{
}
