<?php

declare(strict_types=1);

namespace Wakecall;

/** A callback does not have a valid signature. Answer 401. */
final class SignatureException extends WakecallException
{
}
