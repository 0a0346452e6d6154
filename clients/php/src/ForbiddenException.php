<?php

declare(strict_types=1);

namespace Wakecall;

/** The token lacks a right, which `detail` names. Ask for it. */
final class ForbiddenException extends ApiException
{
}
