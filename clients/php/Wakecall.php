<?php

/**
 * Wakecall's client for PHP 7.4 and later, in one file. It needs only the extensions that PHP always has, and openssl
 * for https, so copying this file is enough.
 *
 *     $client = new Wakecall\Client('http://127.0.0.1:6789', $token);
 *     $job = $client->push('order.close', ['id' => 'order-42', 'body' => ['order' => 42], 'delay' => '30m']);
 *
 * A refusal by the server throws an ApiError, a lost or impossible connection an UnreachableError. Requests are
 * repeated only if that is safe, and only when the option retry_for allows it.
 */

declare(strict_types=1);

namespace Wakecall;

/** Every error of this file, but wrong arguments. */
class WakecallError extends \RuntimeException
{
}

/** A refusal by the server: RFC 9457's problem details. */
final class ApiError extends WakecallError
{
    public int $status; // HTTP status
    public string $errorCode; // `code` of the problem, such as job_exists (the API page lists them), or ''
    public string $title; // the status's text
    public string $detail; // what is wrong, and how to fix it
    public string $field; // the field of the request that caused it, or ''
    public string $requestId; // finds the request in the server's log
    public int $retryAfter; // seconds to wait before a retry
    public string $id; // id of the job that was pushed, or ''

    public function __construct(
        int $status,
        array $problem,
        string $requestId = '',
        int $retryAfter = 0,
        string $id = ''
    ) {
        $this->status = $status;
        $this->errorCode = (string) ($problem['code'] ?? '');
        $this->title = (string) ($problem['title'] ?? '');
        $this->detail = (string) ($problem['detail'] ?? '');
        $this->field = (string) ($problem['field'] ?? '');
        $this->requestId = $requestId;
        $this->retryAfter = $retryAfter;
        $this->id = (string) ($problem['id'] ?? $id);
        $text = $this->detail ?: $this->title ?: "status $status";
        $known = $this->field === '' || strpos($text, $this->field) !== false;
        parent::__construct($known ? $text : "$this->field: $text", $status);
    }
}

/** There was no answer. */
final class UnreachableError extends WakecallError
{
    public bool $outcomeUnknown; // the request may have been carried out: push again with the same id
    public string $id = ''; // id of the job that was pushed, or ''

    public function __construct(string $text, bool $outcomeUnknown)
    {
        $this->outcomeUnknown = $outcomeUnknown;
        parent::__construct($text);
    }
}

/** PHP cannot decode the body of a job. A worker releases the job for a minute, and does not call its function. */
final class UnreadableError extends WakecallError
{
}

/** A callback does not have a valid signature: answer 401. */
final class SignatureError extends WakecallError
{
}

/** Thrown by a handler that cannot do a job now: it is ready again after a delay; the attempt is not counted. */
final class Released extends \Exception
{
    /** @var string|int|float */
    public $delay;

    /** @param string|int|float $delay */
    public function __construct($delay = 0)
    {
        $this->delay = $delay;
        parent::__construct("released for $delay");
    }
}

/** Thrown by a handler that can never do a job: it is dead at once. */
final class Buried extends \Exception
{
}

final class Client
{
    private const LONGEST_WAIT = 60.0; // seconds, of a push

    private string $base;
    private array $headers = ['Accept: application/json, application/problem+json', 'Connection: close'];
    private float $timeout;
    private float $retryFor;
    private array $ssl;

    /**
     * @param array $options timeout: seconds for a request (30); retry_for: how long to repeat requests that are safe
     *                       to repeat (0: never); ssl: PHP's SSL context options, such as cafile
     */
    public function __construct(string $url, string $token = '', array $options = [])
    {
        if (!preg_match('#^https?://[^/\x00-\x20\x7f][^\x00-\x20\x7f]*$#D', $url)) {
            throw new \InvalidArgumentException('server URL must be http://HOST:PORT or https://HOST');
        }
        if (!ini_get('allow_url_fopen')) {
            throw new \LogicException('set allow_url_fopen = On in php.ini: this client uses the http stream wrapper');
        }
        $this->base = rtrim($url, '/');
        if ($token !== '') {
            $this->headers[] = self::header("Authorization: Bearer $token");
        }
        $this->timeout = (float) ($options['timeout'] ?? 30);
        $this->retryFor = (float) ($options['retry_for'] ?? 0);
        $this->ssl = $options['ssl'] ?? [];
    }

    // Jobs

    /**
     * Pushes a job, and returns it as the server stored it.
     *
     * @param array $push body: any value that JSON has, or json: a text that is sent byte for byte; id (without one,
     *                    the client makes one, so that the push is safe to repeat), delay or due_at, priority, ttr,
     *                    max_attempts, on_duplicate ('keep', 'replace', 'error'), ttl or expires_at, headers, retry,
     *                    group, key, url, traceparent; wait, up to 60 s, to return when the job has ended ('done' with its
     *                    result, or
     *                    'dead'), and on_timeout ('keep', 'delete'). Durations are '90s' or seconds; times RFC 3339,
     *                    Unix milliseconds or a DateTimeInterface; due_at may be a local time ('2030-01-31 08:00:00')
     *                    beside time_zone.
     */
    public function push(string $topic, array $push): array
    {
        $push = self::withId($push);
        try {
            $options = ['waits' => empty($push['wait']) ? 0.0 : self::LONGEST_WAIT];
            return $this->do('POST', self::path($topic), self::encode($push), self::repeatable($push), $options);
        } catch (ApiError | UnreachableError $e) {
            $e->id = $e->id ?: $push['id'];
            throw $e;
        }
    }

    /**
     * Pushes up to 1,000 jobs, each with its topic. Returns a list in their order, of jobs or, where one was refused,
     * an ApiError. A refused job does not fail the others.
     *
     * @return array<array|ApiError>
     */
    public function pushBatch(array $pushes): array
    {
        $pushes = array_map([self::class, 'withId'], array_values($pushes));
        $text = '{"jobs":[' . implode(',', array_map([self::class, 'encode'], $pushes)) . ']}';
        $repeatable = count(array_filter($pushes, [self::class, 'repeatable'])) === count($pushes);
        $results = $this->do('POST', '/v1/jobs', $text, $repeatable)['results'];
        if (count($results) !== count($pushes)) {
            throw new WakecallError('got ' . count($results) . ' results for ' . count($pushes) . ' jobs');
        }
        return array_map(static function (array $r, array $push) {
            return isset($r['error']) ? new ApiError($r['error']['status'], $r['error'], '', 0, $push['id']) : $r;
        }, $results, $pushes);
    }

    /** Returns a job with its attempts (history), what it waits for (waits) and its etag. */
    public function get(string $topic, string $id): array
    {
        return $this->do('GET', self::path($topic, $id), null, true);
    }

    /**
     * Changes due_at or delay, priority, url (null: the topic's), body or json of a delayed or ready job.
     *
     * @param string $etag if given, the job is changed only if it has not changed since
     */
    public function change(string $topic, string $id, array $changes, string $etag = ''): array
    {
        // A delay counts from its arrival, so repeating it would move the job again.
        $repeatable = !isset($changes['delay']) && $etag === '';
        $header = ['If-Match' => $etag];
        return $this->do('PATCH', self::path($topic, $id), self::encode($changes), $repeatable, ['header' => $header]);
    }

    /** Deletes a job. No callback starts after this has returned. */
    public function delete(string $topic, string $id, string $etag = ''): void
    {
        $this->do('DELETE', self::path($topic, $id), null, false, ['header' => ['If-Match' => $etag]]);
    }

    /** Makes a job due now; a dead job starts again at attempt 1. */
    public function run(string $topic, string $id): array
    {
        return $this->do('POST', self::path($topic, $id) . '/run', null, false);
    }

    // Groups

    /** Returns a group: its counts by state, the first jobs by due time, and closed_until while it is closed. */
    public function group(string $name, ?int $limit = null): array
    {
        return $this->do('GET', self::groupPath($name, ['limit' => $limit]), null, true);
    }

    /**
     * Deletes the waiting and dead jobs of a group, in all topics that the token may push to. No callback of them
     * starts after this has returned. Returns how many jobs are deleted, and how many running, which end and are not
     * retried; pending has the shards that do not answer, which delete their jobs before they are used again, or within
     * 2 s.
     *
     * @param string|int|float|null $close if given, pushes into the group are refused for that time, with the code
     *                                     group_closed
     */
    public function cancelGroup(string $name, $close = null): array
    {
        return $this->do('DELETE', self::groupPath($name, ['close' => $close]), null, true);
    }

    /**
     * Moves the delayed and ready jobs of a group. Returns how many jobs are moved and skipped (running, dead, or
     * expiring before).
     *
     * @param array  $move delay or due_at: one due time for all; or shift: by how long to move each
     * @param string $key  required with shift: within a day, calls with the same key move each job once
     */
    public function moveGroup(string $name, array $move, string $key = ''): array
    {
        // A delay counts from its arrival, so repeating it would move the jobs again.
        $options = ['header' => ['Idempotency-Key' => $key]];
        return $this->do('PATCH', self::groupPath($name), self::encode($move), !isset($move['delay']), $options);
    }

    // Schedules

    /** Returns the schedules of a topic, or of all topics that the token may read, by name; page by page. */
    public function schedules(?string $topic = null): \Generator
    {
        for ($cursor = null;; $cursor = $page['next']) {
            $query = http_build_query(['topic' => $topic, 'limit' => 1000, 'cursor' => $cursor]);
            $page = $this->do('GET', "/v1/schedules?$query", null, true);
            foreach ($page['schedules'] as $schedule) {
                yield $schedule;
            }
            if (($page['next'] ?? '') === '') {
                return;
            }
        }
    }

    /**
     * Returns a schedule with its next occurrences (next), its last jobs (last), and how many occurrences were left
     * out, by reason (left_out).
     */
    public function schedule(string $name): array
    {
        return $this->do('GET', self::schedulePath($name), null, true);
    }

    /**
     * Creates a schedule, or replaces it as a whole, and returns it.
     *
     * @param array $schedule topic, body or json (a text that is sent byte for byte), cron ('0 8 * * 1-5') or every,
     *                        time_zone, start_at, end_at, priority, headers, jitter, missed ('last', 'skip', 'all'),
     *                        max_late, overlap ('skip', 'replace', 'allow'), state ('active', 'paused'), paused_until
     */
    public function putSchedule(string $name, array $schedule): array
    {
        return $this->do('PUT', self::schedulePath($name), self::encode($schedule + ['body' => null]), true);
    }

    /** Deletes a schedule. Its jobs stay. */
    public function deleteSchedule(string $name): void
    {
        $this->do('DELETE', self::schedulePath($name), null, false);
    }

    /**
     * Pauses a schedule, and returns it.
     *
     * @param string|int|\DateTimeInterface|null $until null: until it is resumed
     */
    public function pauseSchedule(string $name, $until = null): array
    {
        return $this->do('POST', self::schedulePath($name, '/pause'), self::encode(['until' => $until]), true);
    }

    /** Ends a pause. The occurrences of the pause are left out, or with $catchUp pushed as `missed` says. */
    public function resumeSchedule(string $name, bool $catchUp = false): array
    {
        $text = self::encode(['catch_up' => $catchUp ?: null]);
        return $this->do('POST', self::schedulePath($name, '/resume'), $text, true);
    }

    /** Pushes a job of a schedule now; returns its topic and id. The next occurrence is pushed nevertheless. */
    public function runSchedule(string $name): array
    {
        return $this->do('POST', self::schedulePath($name, '/run'), null, false);
    }

    /**
     * Pushes the occurrences of a period that have no job. Returns the occurrences, and how many are pushed, existing
     * and left_out.
     *
     * @param array $backfill from, to (occurrences before it); at most 1,000; overlap ('allow' if it is not given);
     *                        dry_run: push none
     */
    public function backfillSchedule(string $name, array $backfill): array
    {
        return $this->do('POST', self::schedulePath($name, '/backfill'), self::encode($backfill), true);
    }

    // Tasks

    /**
     * Starts a task, which does one thing to all jobs that match a filter, and returns it. It goes on by itself.
     *
     * @param array  $task action: 'run', 'retry', 'delete', 'shift', 'change'; filter: topic (a name or pattern),
     *                     state, id_prefix, error, status, reason, due_after, due_before, since, until; by (of shift);
     *                     change (due_at, priority); rate; stop_above; dry_run
     * @param string $key  calls with the same key start one task; without one each call starts another
     */
    public function startTask(array $task, string $key = ''): array
    {
        $options = ['header' => ['Idempotency-Key' => $key === '' ? bin2hex(random_bytes(16)) : $key]];
        return $this->do('POST', '/v1/tasks', self::encode($task), true, $options);
    }

    /** Returns a task: its state, and how many jobs matched, are done, skipped by reason, and failed. */
    public function task(string $id): array
    {
        return $this->do('GET', '/v1/tasks/' . self::escape($id), null, true);
    }

    /** Returns the tasks that the token may see, newest first. */
    public function tasks(?int $limit = null): array
    {
        $query = http_build_query(['limit' => $limit]);
        return $this->do('GET', '/v1/tasks' . ($query === '' ? '' : "?$query"), null, true)['tasks'];
    }

    /** Asks a task to end, and returns it. What it has done stays. */
    public function cancelTask(string $id): array
    {
        return $this->do('DELETE', '/v1/tasks/' . self::escape($id), null, true);
    }

    // Pull topics

    /**
     * Reserves ready jobs of pull topics. A job whose body PHP cannot decode has the bytes in body_base64, and the
     * reason in unreadable, instead of a body.
     *
     * @param string|string[] $topics
     * @param array $options max: of jobs (1); wait: seconds for the first one (0); ttr: of the leases; order: 'fair',
     *                       'listed'
     */
    public function reserve($topics, array $options = []): array
    {
        $wait = (float) ($options['wait'] ?? 0);
        $ask = self::encode(['topics' => array_values((array) $topics)] + $options);
        return $this->do('POST', '/v1/reserve', $ask, false, ['waits' => $wait])['jobs'];
    }

    /** Ends the lease of a job that is done; the result is any value, and is kept with the finished job. */
    public function ack(string $lease, $result = null): void
    {
        $this->end($lease, 'ack', ['result' => $result]);
    }

    /**
     * Makes a job ready again after a delay; the attempt is not counted.
     *
     * @param string|int|float $delay
     */
    public function release(string $lease, $delay = 0): void
    {
        $this->end($lease, 'release', ['delay' => $delay]);
    }

    /** Ends a failed attempt: the job is retried by its schedule, or dead after its last attempt. */
    public function fail(string $lease, string $reason = ''): void
    {
        $this->end($lease, 'fail', ['reason' => self::cut($reason)]);
    }

    /** Makes a job dead. */
    public function bury(string $lease, string $reason = ''): void
    {
        $this->end($lease, 'bury', ['reason' => self::cut($reason)]);
    }

    /**
     * Makes a lease last for ttr from now; without one: for the TTR of the job, or of its topic.
     *
     * @param string|int|float|null $ttr
     */
    public function extend(string $lease, $ttr = null): array
    {
        return $this->end($lease, 'extend', ['ttr' => $ttr]);
    }

    private function end(string $lease, string $verb, array $ask, ?float $retryFor = null): array
    {
        $path = '/v1/leases/' . rawurlencode($lease) . "/$verb";
        return $this->do('POST', $path, self::encode($ask), true, ['retry_for' => $retryFor]);
    }

    /**
     * Reserves jobs of pull topics one after the other, and calls $handle($job) for each. When it returns, the job is
     * done. Released and Buried mean what their names say; any other exception fails the attempt. PHP cannot extend the
     * lease meanwhile: choose a ttr that is long enough, or call extend($job['lease']) from $handle.
     *
     * @param string|string[] $topics
     * @param array $options stop: a function that returns true to end the loop, asked after each job and each wait;
     *                       wait: seconds for a job (5); ttr: of the leases; failed: a function for the errors that are
     *                       repeated, and those of leases that could not be ended
     */
    public function work($topics, callable $handle, array $options = []): void
    {
        $stopped = $options['stop'] ?? static function () {
            return false;
        };
        $failed = $options['failed'] ?? static function () {
        };
        $ask = ['wait' => $options['wait'] ?? 5, 'ttr' => $options['ttr'] ?? null];
        $pause = 0;
        while (!$stopped()) {
            $began = microtime(true);
            $jobs = [];
            try {
                $jobs = $this->reserve($topics, $ask);
                // A server that is stopping lets no worker wait.
                $early = !$jobs && microtime(true) - $began < 0.5;
            } catch (WakecallError $e) {
                if (!self::temporary($e)) {
                    throw $e;
                }
                $failed($e);
                $early = true;
            }
            foreach ($jobs as $job) {
                $this->workOn($job, $stopped() ? [self::class, 'giveBack'] : $handle, $failed);
            }
            $pause = $early ? min(max(2 * $pause, 100), 5000) : 0;
            usleep($pause * random_int(500, 1000));
        }
    }

    private function workOn(array $job, callable $handle, callable $failed): void
    {
        try {
            if (isset($job['unreadable'])) {
                throw new UnreadableError("the body of {$job['topic']}/{$job['id']}: {$job['unreadable']}");
            }
            $handle($job);
            $end = ['ack', []];
        } catch (UnreadableError $e) {
            $failed($e);
            $end = ['release', ['delay' => 60]];
        } catch (Released $e) {
            $end = ['release', ['delay' => $e->delay]];
        } catch (Buried $e) {
            $end = ['bury', ['reason' => self::cut($e->getMessage())]];
        } catch (\Throwable $e) {
            $end = ['fail', ['reason' => self::cut($e->getMessage() ?: get_class($e))]];
        }
        try {
            $this->end($job['lease'], $end[0], $end[1], 10);
        } catch (WakecallError $e) {
            $failed($e);
        }
    }

    private static function giveBack(): void
    {
        throw new Released();
    }

    // Requests

    private function do(string $method, string $path, ?string $text, bool $repeatable, array $options = []): array
    {
        $deadline = microtime(true) + ($options['retry_for'] ?? $this->retryFor);
        for ($pause = 0.05;; $pause = min(2 * $pause, 1.6)) {
            $wait = $pause;
            try {
                return $this->once($method, $path, $text, $options['header'] ?? [], $options['waits'] ?? 0);
            } catch (UnreachableError $e) {
                $again = $repeatable || !$e->outcomeUnknown;
            } catch (ApiError $e) {
                $again = $repeatable && $e->status === 503;
                $wait = max($pause, $e->retryAfter);
            }
            if (!$again || microtime(true) + $wait > $deadline) {
                throw $e;
            }
            usleep((int) ($wait * 1e6));
        }
    }

    private function once(string $method, string $path, ?string $text, array $header, float $waits): array
    {
        $timeout = $this->timeout + $waits;
        $deadline = microtime(true) + $timeout;
        $headers = $this->headers;
        foreach (array_filter($header, 'strlen') as $name => $value) {
            $headers[] = self::header("$name: $value");
        }
        $headers[] = $text !== null ? 'Content-Type: application/json' : 'Content-Length: 0';
        $context = stream_context_create(['ssl' => $this->ssl, 'http' => [
            'method' => $method, 'header' => $headers, 'content' => (string) $text, 'user_agent' => 'wakecall-php',
            'protocol_version' => '1.1', 'ignore_errors' => true, 'follow_location' => 0, 'timeout' => $timeout,
        ]]);
        $warning = '';
        set_error_handler(static function (int $level, string $message) use (&$warning): bool {
            $warning .= $message . '; ';
            return true;
        });
        try {
            $stream = fopen($this->base . $path, 'rb', false, $context);
            if ($stream === false) {
                throw $this->unreachable(preg_replace('/fopen\(.*?\): |; $/', '', $warning));
            }
            $lines = stream_get_meta_data($stream)['wrapper_data'];
            $answer = '';
            while (!feof($stream)) {
                stream_set_timeout($stream, (int) ceil(max(0.001, $deadline - microtime(true))));
                $answer .= fread($stream, 65536);
                if (stream_get_meta_data($stream)['timed_out'] || microtime(true) > $deadline) {
                    throw $this->unreachable('timed out');
                }
            }
            fclose($stream);
        } finally {
            restore_error_handler();
        }
        return $this->answer($lines, $answer);
    }

    private function unreachable(string $why): UnreachableError
    {
        $notSent = preg_match('/refused|getaddrinfo/', $why) === 1;
        return new UnreachableError('no answer from ' . parse_url($this->base, PHP_URL_HOST) . ": $why", !$notSent);
    }

    /** @param string[] $lines of the header */
    private function answer(array $lines, string $text): array
    {
        $status = (int) explode(' ', $lines[0])[1];
        $header = [];
        foreach (array_slice($lines, 1) as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $header[strtolower($name)] = trim($value);
        }
        if (isset($header['content-length']) && strlen($text) < (int) $header['content-length']) {
            throw $this->unreachable('connection lost within the answer');
        }
        $value = $text === '' ? [] : self::parse($text);
        if (!is_array($value)) { // of a proxy in between, most likely
            $value = ['detail' => 'unexpected answer: ' . substr(preg_replace('/\s+/', ' ', $text), 0, 200)];
        } elseif ($status >= 200 && $status < 300) {
            return isset($header['etag']) ? $value + ['etag' => $header['etag']] : $value;
        }
        if ($status >= 300 && $status < 400) {
            $value = ['detail' => "redirected to {$header['location']}; use the URL of the server itself"];
        }
        throw new ApiError($status, $value, $header['x-request-id'] ?? '', (int) ($header['retry-after'] ?? 0));
    }

    /** @return mixed */
    private static function parse(string $text)
    {
        $value = json_decode(self::undecoded($text), true, 512, JSON_BIGINT_AS_STRING);
        foreach (['jobs', 'schedules'] as $list) {
            if (isset($value[$list]) && is_array($value[$list])) {
                $value[$list] = array_map([self::class, 'job'], $value[$list]);
            }
        }
        return isset($value['topic']) ? self::job($value) : $value;
    }

    /**
     * Returns the JSON of an answer in which the body of each job is a string: its JSON. So a body that cannot be
     * decoded costs no other job. Jobs, and schedules, are at depth 1 or 3; at 2 and 4 are headers, which may be named
     * body.
     */
    private static function undecoded(string $text): string
    {
        [$out, $end, $depth, $level, $start] = ['', 0, 0, 0, null];
        for ($i = 0; ($i += strcspn($text, '"{}[],', $i)) < strlen($text); $i++) {
            $c = $text[$i];
            $depth += ($c === '{' || $c === '[') - ($c === '}' || $c === ']');
            if ($start !== null && ($depth < $level || ($depth === $level && $c === ','))) {
                $body = substr($text, $start, $i - $start);
                $out .= substr($text, $end, $start - $end) . json_encode($body, JSON_INVALID_UTF8_SUBSTITUTE);
                [$end, $start] = [$i, null];
            }
            if ($c !== '"') {
                continue;
            }
            if ($start === null && $depth % 2 && preg_match('/\G"body"\s*:/', $text, $found, 0, $i)) {
                $i += strlen($found[0]) - 1;
                [$start, $level] = [$i + 1, $depth];
                continue;
            }
            for ($i++; ($i += strcspn($text, '"\\', $i)) < strlen($text) && $text[$i] === '\\'; $i += 2) {
            }
        }
        return $out . substr($text, $end);
    }

    /** Returns a job whose body is decoded, if possible. */
    private static function job(array $job): array
    {
        $json = $job['body'] ?? null;
        if ($json === null && preg_match('#^(application/json|[^;]*\+json)?\s*(;|$)#i', $job['content_type'] ?? '')) {
            $json = isset($job['body_base64']) ? base64_decode($job['body_base64']) : null;
        }
        if ($json === null) {
            return $job;
        }
        $body = json_decode($json, true, 512, JSON_BIGINT_AS_STRING);
        unset($job['body']);
        if (json_last_error() === JSON_ERROR_NONE) {
            return ['body' => $body] + $job;
        }
        $job['body_base64'] = base64_encode($json);
        $binary = in_array(json_last_error(), [JSON_ERROR_SYNTAX, JSON_ERROR_UTF8, JSON_ERROR_CTRL_CHAR], true);
        return $binary ? $job : ['unreadable' => json_last_error_msg()] + $job;
    }

    private static function header(string $line): string
    {
        if (preg_match('/[\x00-\x1f\x7f]/', $line)) {
            throw new \InvalidArgumentException('a token, etag or key has a control character, such as a line break');
        }
        return $line;
    }

    private static function path(string $topic, ?string $id = null): string
    {
        $path = '/v1/topics/' . rawurlencode($topic) . '/jobs';
        return $id === null ? $path : "$path/" . self::escape($id);
    }

    private static function groupPath(string $name, array $options = []): string
    {
        $query = http_build_query($options);
        return '/v1/groups/' . self::escape($name) . ($query === '' ? '' : "?$query");
    }

    private static function schedulePath(string $name, string $action = ''): string
    {
        return '/v1/schedules/' . self::escape($name) . $action;
    }

    private static function escape(string $id): string
    {
        $dots = $id === '.' || $id === '..'; // otherwise a proxy would resolve it as a relative path
        return $dots ? str_replace('.', '%2E', $id) : rawurlencode($id);
    }

    private static function withId(array $push): array
    {
        return $push + ['id' => bin2hex(random_bytes(16)), 'body' => null];
    }

    private static function repeatable(array $push): bool
    {
        return ($push['on_duplicate'] ?? '') !== 'error';
    }

    /** Returns the JSON of a request. A body given as JSON is not decoded, since that could change it. */
    private static function encode(array $members): string
    {
        $parts = [];
        $body = array_key_exists('body', $members) && !isset($members['json']) ? self::json($members['body']) : null;
        if (isset($members['json'])) {
            $body = $members['json'];
            json_decode($body, true, 512, JSON_THROW_ON_ERROR);
        }
        unset($members['body'], $members['json']);
        foreach ($members as $name => $value) {
            if ($value instanceof \DateTimeInterface) {
                // Rounded up to milliseconds, since a job must never be early.
                $value = (int) $value->format('U') * 1000 + (int) ceil((int) $value->format('u') / 1000);
            }
            if ($name === 'headers') {
                $value = (object) $value;
            }
            if ($value !== null || $name === 'url') {
                $parts[] = self::json((string) $name) . ':' . self::json($value);
            }
        }
        if ($body !== null) {
            $parts[] = '"body":' . $body;
        }
        return '{' . implode(',', $parts) . '}';
    }

    private static function json($value): string
    {
        $flags = JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION | JSON_THROW_ON_ERROR;
        return json_encode($value, $flags);
    }

    /** The server accepts reasons of up to 512 bytes. */
    private static function cut(string $reason): string
    {
        $valid = json_decode(json_encode(substr($reason, 0, 512), JSON_INVALID_UTF8_IGNORE));
        return (string) $valid;
    }

    private static function temporary(WakecallError $e): bool
    {
        return $e instanceof UnreachableError || ($e instanceof ApiError && ($e->status >= 500 || $e->status === 429));
    }
}

/**
 * Checks the signature of a callback (Standard Webhooks), or throws a SignatureError.
 *
 * @param string|string[] $secrets   the topic's, whsec_…; several while one is being rotated
 * @param array           $headers   as getallheaders() or PSR-7 return them
 * @param string          $body      the bytes as received: file_get_contents('php://input')
 * @param int             $tolerance seconds that the callback's time may differ from this host's clock
 */
function verify($secrets, array $headers, string $body, int $tolerance = 300): void
{
    $value = static function (string $name) use ($headers): string {
        $found = array_change_key_case($headers)[$name] ?? '';
        return is_array($found) ? implode(' ', $found) : (string) $found;
    };
    [$id, $sent] = [$value('webhook-id'), $value('webhook-timestamp')];
    if ($id === '' || !preg_match('/^[0-9]{1,12}$/D', $sent)) {
        throw new SignatureError('the callback has no webhook-id or no valid webhook-timestamp');
    }
    if (abs(time() - (int) $sent) > $tolerance) {
        throw new SignatureError("webhook-timestamp $sent is more than $tolerance s away from this host's clock");
    }
    $found = false;
    foreach ((array) $secrets as $secret) {
        $key = base64_decode(preg_replace('/^whsec_/', '', $secret), true);
        if ($key === false || $key === '') {
            throw new \InvalidArgumentException('secrets must be whsec_ followed by base64');
        }
        $want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$sent.$body", $key, true));
        foreach (explode(' ', $value('webhook-signature')) as $signature) {
            $found = hash_equals($want, $signature) || $found;
        }
    }
    if (!$found) {
        throw new SignatureError("no signature matches: is the topic's secret another one?");
    }
}
