<?php

declare(strict_types=1);

namespace Wakecall;

/** The group of the job is closed: what it is about has ended. Leave the job out. */
final class GroupClosedException extends ConflictException
{
}
