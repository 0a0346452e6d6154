<?php

declare(strict_types=1);

namespace Wakecall;

/** Thrown by a handler that can never do a job: it is dead at once. */
final class Buried extends \Exception
{
}
