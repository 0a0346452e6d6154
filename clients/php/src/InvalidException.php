<?php

declare(strict_types=1);

namespace Wakecall;

/** The request is malformed, out of range or too large. Correct it; `field` names the field. */
final class InvalidException extends ApiException
{
}
