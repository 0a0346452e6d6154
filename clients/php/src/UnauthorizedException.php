<?php

declare(strict_types=1);

namespace Wakecall;

/** The token is missing, unknown, revoked or expired. Use another one. */
final class UnauthorizedException extends ApiException
{
}
