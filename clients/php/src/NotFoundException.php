<?php

declare(strict_types=1);

namespace Wakecall;

/** There is no such topic, job, schedule or task; `errorCode` says which. */
final class NotFoundException extends ApiException
{
}
