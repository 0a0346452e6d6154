<?php

declare(strict_types=1);

namespace Wakecall;

/** Every error of this package, but wrong arguments. */
class WakecallException extends \RuntimeException
{
}
