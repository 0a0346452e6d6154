<?php

declare(strict_types=1);

namespace Wakecall;

/**
 * A client of one server, with PHP's own streams.
 *
 *     $client = new Wakecall\Client('http://127.0.0.1:6789', $token);
 *     $job = $client->push('order.close', ['id' => 'order-42', 'body' => ['order' => 42], 'delay' => '30m']);
 *
 * A refusal by the server throws a subclass of ApiException that says what to do, a lost or impossible connection an
 * UnreachableException. Durations are '90s' or seconds; times RFC 3339, Unix milliseconds or a DateTimeInterface.
 */
final class Client
{
    private const LONGEST_WAIT = 60.0; // seconds, of a push
    private const LONGEST_SEARCH = 600.0; // seconds

    private string $base;
    private array $headers = ['Accept: application/json, application/problem+json', 'Connection: close'];
    private float $timeout;
    private float $retryFor;
    private array $ssl;

    /**
     * @param array $options timeout: seconds for a request (30); retry_for: seconds for which requests that are safe to
     *                       repeat are repeated after 429, 503 or a lost connection (10; 0: never); ssl: PHP's SSL
     *                       context options, such as cafile
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
        $this->retryFor = (float) ($options['retry_for'] ?? 10);
        $this->ssl = $options['ssl'] ?? [];
    }

    // Jobs

    /**
     * Pushes a job, and returns it as the server stored it.
     *
     * @param array $push body: any value that JSON has, or json: a text that is sent byte for byte; id (without one,
     *                    the client makes one, so that the push is safe to repeat), delay or due_at, priority, ttr,
     *                    max_attempts, on_duplicate ('keep', 'replace', 'error'), ttl or expires_at, headers, retry,
     *                    group, key, url, traceparent; wait, up to 60 s, to return when the job has ended ('done' with
     *                    its result, or 'dead'), and on_timeout ('keep', 'delete'). due_at may be a local time
     *                    ('2030-01-31 08:00:00') beside time_zone.
     */
    public function push(string $topic, array $push): array
    {
        $push = self::withId($push);
        try {
            $options = ['waits' => empty($push['wait']) ? 0.0 : self::LONGEST_WAIT];
            return $this->do('POST', self::path($topic), self::encode($push), self::repeatable($push), $options);
        } catch (ApiException | UnreachableException $e) {
            $e->id = $e->id ?: $push['id'];
            throw $e;
        }
    }

    /**
     * Pushes up to 1,000 jobs, each with its topic. Returns a list in their order, of jobs or, where one was refused,
     * an ApiException. A refused job does not fail the others.
     *
     * @return array<array|ApiException>
     */
    public function pushBatch(array $pushes): array
    {
        $pushes = array_map([self::class, 'withId'], array_values($pushes));
        $text = '{"jobs":[' . implode(',', array_map([self::class, 'encode'], $pushes)) . ']}';
        $repeatable = count(array_filter($pushes, [self::class, 'repeatable'])) === count($pushes);
        $results = $this->do('POST', '/v1/jobs', $text, $repeatable)['results'];
        if (count($results) !== count($pushes)) {
            throw new WakecallException('got ' . count($results) . ' results for ' . count($pushes) . ' jobs');
        }
        return array_map(static function (array $r, array $push) {
            return isset($r['error']) ? ApiException::of($r['error']['status'], $r['error'], '', 0, $push['id']) : $r;
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

    /**
     * Returns the jobs of a state, page by page. Listed jobs have neither body nor history.
     *
     * @param string $state  'delayed', 'ready', 'running', 'dead' or 'done'
     * @param array  $filter prefix, of the ids of dead and done jobs; status, error, reason, since, until of dead ones
     *
     * @return \Generator<array>
     */
    public function jobs(string $topic, string $state, array $filter = []): \Generator
    {
        return $this->pages(self::path($topic), 'jobs', $filter + ['state' => $state, 'limit' => 1000]);
    }

    /**
     * Makes dead jobs ready again, with no attempts made. Returns their number.
     *
     * @param array $selection ids; or limit: the oldest, up to so many, that the filter selects; dry_run only counts
     */
    public function retryDead(string $topic, array $selection): int
    {
        return $this->dead($topic, 'retry', $selection);
    }

    /** Deletes dead jobs, selected as by retryDead. Returns their number. */
    public function deleteDead(string $topic, array $selection): int
    {
        return $this->dead($topic, 'delete', $selection);
    }

    private function dead(string $topic, string $action, array $selection): int
    {
        $path = '/v1/topics/' . self::escape($topic) . "/dead/$action";
        return $this->do('POST', $path, self::encode($selection), !empty($selection['dry_run']))['count'];
    }

    /** Returns what the shards and the journals of all hosts have of an id. Large journals take minutes. */
    public function search(string $id, ?string $topic = null): array
    {
        $path = self::query('/v1/search', ['id' => $id, 'topic' => $topic]);
        return $this->do('GET', $path, null, true, ['waits' => self::LONGEST_SEARCH]);
    }

    // Topics

    /**
     * Returns the topics that the token may manage, by name, page by page.
     *
     * @param array $filter prefix, state, owner
     *
     * @return \Generator<array>
     */
    public function topics(array $filter = []): \Generator
    {
        return $this->pages('/v1/topics', 'topics', $filter);
    }

    /** Returns a topic with its etag. */
    public function topic(string $name): array
    {
        return $this->do('GET', '/v1/topics/' . self::escape($name), null, true);
    }

    /**
     * Creates a topic, or replaces it as a whole, and returns it. A setting that is missing takes its default, but the
     * secrets, which stay.
     *
     * @param array  $settings as the API has them, or a topic as it was read
     * @param string $reason   why it is paused or offline
     * @param string $etag     if given, the topic is replaced only if it has not changed since
     */
    public function putTopic(string $name, array $settings, string $reason = '', string $etag = ''): array
    {
        unset($settings['etag']);
        $path = self::query('/v1/topics/' . self::escape($name), ['reason' => $reason === '' ? null : $reason]);
        return $this->do('PUT', $path, self::encode($settings), $etag === '', ['header' => ['If-Match' => $etag]]);
    }

    /**
     * Changes settings of a topic, and returns it.
     *
     * @param array  $patch a JSON merge patch: null resets a setting to its default; headers and per_key are merged
     * @param string $etag  if given, the topic is changed only if it has not changed since
     */
    public function patchTopic(string $name, array $patch, string $etag = ''): array
    {
        $path = '/v1/topics/' . self::escape($name);
        $options = ['header' => ['If-Match' => $etag]];
        return $this->do('PATCH', $path, self::encode($patch, true), $etag === '', $options);
    }

    /**
     * Pauses a topic, and returns it. If it is paused already, this replaces its reason and until.
     *
     * @param string                             $reason for the others on call
     * @param string|int|\DateTimeInterface|null $until  a time, or a duration in text ('2h'); null: until it is resumed
     */
    public function pauseTopic(
        string $name,
        string $reason = '',
        string|int|\DateTimeInterface|null $until = null
    ): array {
        $text = self::encode(['reason' => $reason === '' ? null : $reason, 'until' => $until]);
        return $this->do('POST', '/v1/topics/' . self::escape($name) . '/pause', $text, true);
    }

    /** Makes a paused or offline topic active, and returns it. */
    public function resumeTopic(string $name): array
    {
        return $this->do('POST', '/v1/topics/' . self::escape($name) . '/resume', null, true);
    }

    /**
     * Deletes a topic. One that has jobs is refused without $drop, one that schedules use without $force: these delete
     * them, too.
     */
    public function deleteTopic(string $name, bool $drop = false, bool $force = false, string $etag = ''): void
    {
        $options = ['drop' => $drop ?: null, 'force' => $force ?: null];
        $path = self::query('/v1/topics/' . self::escape($name), $options);
        $this->do('DELETE', $path, null, false, ['header' => ['If-Match' => $etag]]);
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
     * @param string|int|float|null $close  if given, pushes into the group are refused for that time
     *                                      (GroupClosedException)
     * @param string                $topics patterns of topics, separated by commas; '': those of the token
     */
    public function cancelGroup(string $name, string|int|float|null $close = null, string $topics = ''): array
    {
        $path = self::groupPath($name, ['close' => $close, 'topics' => $topics === '' ? null : $topics]);
        return $this->do('DELETE', $path, null, true);
    }

    /**
     * Moves the delayed and ready jobs of a group. Returns how many jobs are moved and skipped (running, dead, or
     * expiring before).
     *
     * @param array  $move delay or due_at: one due time for all; or shift: by how long to move each
     * @param string $idempotencyKey within a day, calls with the same key shift each job once; without one, the client
     *                               makes one for its own retries
     */
    public function moveGroup(string $name, array $move, string $idempotencyKey = ''): array
    {
        if (isset($move['shift']) && $idempotencyKey === '') {
            $idempotencyKey = bin2hex(random_bytes(16));
        }
        // A delay counts from its arrival, so repeating it would move the jobs again.
        $options = ['header' => ['Idempotency-Key' => $idempotencyKey]];
        return $this->do('PATCH', self::groupPath($name), self::encode($move), !isset($move['delay']), $options);
    }

    // Schedules

    /**
     * Returns the schedules of a topic, or of all topics that the token may read, by name, page by page.
     *
     * @return \Generator<array>
     */
    public function schedules(?string $topic = null): \Generator
    {
        return $this->pages('/v1/schedules', 'schedules', ['topic' => $topic, 'limit' => 1000]);
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

    /** Pauses a schedule, and returns it. $until: a time, or a duration in text ('2h'); null: until it is resumed. */
    public function pauseSchedule(string $name, string|int|\DateTimeInterface|null $until = null): array
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
     * @param string $idempotencyKey calls with the same key start one task; without one, the client makes one for its
     *                               own retries
     */
    public function startTask(array $task, string $idempotencyKey = ''): array
    {
        $options = ['header' => ['Idempotency-Key' => $idempotencyKey ?: bin2hex(random_bytes(16))]];
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
        return $this->do('GET', self::query('/v1/tasks', ['limit' => $limit]), null, true)['tasks'];
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
     * @param array           $options max: of jobs (1); wait: for the first one (0); ttr: of the leases; order: 'fair',
     *                       'listed'
     */
    public function reserve(string|array $topics, array $options = []): array
    {
        $wait = self::seconds($options['wait'] ?? 0);
        $ask = self::encode(['topics' => array_values((array) $topics)] + $options);
        return $this->do('POST', '/v1/reserve', $ask, false, ['waits' => $wait])['jobs'];
    }

    /** Ends the lease of a job that is done; the result is any value, and is kept with the finished job. */
    public function ack(string $lease, mixed $result = null): void
    {
        $this->end($lease, 'ack', ['result' => $result]);
    }

    /** Makes a job ready again after a delay; the attempt is not counted. */
    public function release(string $lease, string|int|float $delay = 0): void
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

    /** Makes a lease last for ttr from now; without one: for the TTR of the job, or of its topic. */
    public function extend(string $lease, string|int|float|null $ttr = null): array
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
     * done; what it returns is the result. Released and Buried mean what their names say; any other exception fails the
     * attempt. PHP cannot extend the lease meanwhile: choose a ttr that is long enough, or call extend($job['lease'])
     * from $handle.
     *
     * @param string|string[] $topics
     * @param array $options stop: a function that returns true to end the loop, asked after each job and each wait;
     *                       wait: seconds for a job (5); ttr: of the leases; failed: a function for the errors that are
     *                       repeated, and those of leases that could not be ended
     */
    public function work(string|array $topics, callable $handle, array $options = []): void
    {
        $stopped = $options['stop'] ?? static fn () => false;
        $failed = $options['failed'] ?? static fn () => null;
        $ask = ['wait' => $options['wait'] ?? 5, 'ttr' => $options['ttr'] ?? null];
        $pause = 0;
        while (!$stopped()) {
            $began = microtime(true);
            $jobs = [];
            try {
                $jobs = $this->reserve($topics, $ask);
                // A server that is stopping lets no worker wait.
                $early = !$jobs && microtime(true) - $began < 0.5;
            } catch (WakecallException $e) {
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
                throw new UnreadableException("the body of {$job['topic']}/{$job['id']}: {$job['unreadable']}");
            }
            $end = ['ack', ['result' => $handle($job)]];
            self::json($end); // a value that JSON cannot have fails the attempt
        } catch (UnreadableException $e) {
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
        } catch (WakecallException $e) {
            $failed($e);
        }
    }

    private static function giveBack(): void
    {
        throw new Released();
    }

    // Requests

    private function pages(string $path, string $name, array $options): \Generator
    {
        do {
            $page = $this->do('GET', self::query($path, $options), null, true);
            foreach ($page[$name] as $one) {
                yield $one;
            }
            $options['cursor'] = $page['next'] ?? '';
        } while ($options['cursor'] !== '');
    }

    private function do(string $method, string $path, ?string $text, bool $repeatable, array $options = []): array
    {
        $deadline = microtime(true) + ($options['retry_for'] ?? $this->retryFor);
        for ($pause = 0.05;; $pause = min(2 * $pause, 1.6)) {
            $wait = $pause;
            try {
                return $this->once($method, $path, $text, $options['header'] ?? [], $options['waits'] ?? 0);
            } catch (UnreachableException $e) {
                $again = $repeatable || !$e->outcomeUnknown;
            } catch (RateLimitedException $e) {
                $again = true; // nothing was done
                $wait = max($pause, $e->retryAfter);
            } catch (UnavailableException $e) {
                $again = $repeatable;
                $wait = max($pause, $e->retryAfter);
            }
            if (!$again || microtime(true) + $wait > $deadline) {
                throw $e;
            }
            usleep((int) ($wait * random_int(1_000_000, 1_100_000)));
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

    private function unreachable(string $why): UnreachableException
    {
        $notSent = preg_match('/refused|getaddrinfo/', $why) === 1;
        return new UnreachableException('no answer from ' . parse_url($this->base, PHP_URL_HOST) . ": $why", !$notSent);
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
        if (str_starts_with($header['content-type'] ?? '', 'application/x-ndjson')) {
            $text = substr(strrchr("\n" . rtrim($text), "\n"), 1); // the last line has all that those before have
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
        throw ApiException::of($status, $value, $header['x-request-id'] ?? '', (int) ($header['retry-after'] ?? 0));
    }

    private static function parse(string $text): mixed
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

    private static function seconds(string|int|float $duration): float
    {
        if (!is_string($duration) || is_numeric($duration)) {
            return (float) $duration;
        }
        $units = ['h' => 3600, 'm' => 60, 's' => 1, 'ms' => 1e-3, 'us' => 1e-6, 'µs' => 1e-6, 'ns' => 1e-9];
        preg_match_all('/([0-9.]+)([a-zµ]+)/u', $duration, $parts, PREG_SET_ORDER);
        return (float) array_sum(array_map(static fn (array $p) => (float) $p[1] * ($units[$p[2]] ?? 0), $parts));
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

    /** Returns the path with the options that are not null. */
    private static function query(string $path, array $options): string
    {
        $query = http_build_query(array_map([self::class, 'text'], $options));
        return $query === '' ? $path : "$path?$query";
    }

    private static function text(mixed $value): mixed
    {
        return is_bool($value) ? ($value ? 'true' : 'false') : self::wire($value);
    }

    private static function groupPath(string $name, array $options = []): string
    {
        return self::query('/v1/groups/' . self::escape($name), $options);
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

    /**
     * Returns the JSON of a request, without members that are null unless $nulls. A body given as JSON is not decoded,
     * since that could change it.
     */
    private static function encode(array $members, bool $nulls = false): string
    {
        $parts = [];
        $body = array_key_exists('body', $members) && !isset($members['json']) ? self::json($members['body']) : null;
        if (isset($members['json'])) {
            $body = $members['json'];
            json_decode($body, true, 512, JSON_THROW_ON_ERROR);
        }
        unset($members['body'], $members['json']);
        foreach ($members as $name => $value) {
            if ($value !== null && in_array($name, ['headers', 'filter', 'change', 'per_key'], true)) {
                $value = (object) array_map([self::class, 'wire'], (array) $value);
            }
            if ($value !== null || $nulls || $name === 'url') {
                $parts[] = self::json((string) $name) . ':' . self::json(self::wire($value));
            }
        }
        if ($body !== null) {
            $parts[] = '"body":' . $body;
        }
        return '{' . implode(',', $parts) . '}';
    }

    /** Returns a time in Unix milliseconds, rounded up, since a job must never be early; other values as they are. */
    private static function wire(mixed $value): mixed
    {
        if (!$value instanceof \DateTimeInterface) {
            return $value;
        }
        return (int) $value->format('U') * 1000 + (int) ceil((int) $value->format('u') / 1000);
    }

    private static function json(mixed $value): string
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

    private static function temporary(WakecallException $e): bool
    {
        $status = $e instanceof ApiException ? $e->status : 0;
        return $e instanceof UnreachableException || $status >= 500 || in_array($status, [408, 429], true);
    }
}
