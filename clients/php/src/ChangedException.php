<?php

declare(strict_types=1);

namespace Wakecall;

/** The job or topic has changed since its etag was read. Read it again. */
final class ChangedException extends ApiException
{
}
