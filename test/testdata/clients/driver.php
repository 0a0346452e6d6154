<?php

// Runs commands of clients_test.go with the client for PHP: a JSON object a line in, its outcome a line out.
// driver.php work TOPIC works a pull topic until SIGTERM; a job's body says what its handler does.

require __DIR__ . '/vendor/autoload.php';

use Wakecall\{ApiException, Buried, Client, Released, Signature};

error_reporting(E_ALL);
set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    throw new ErrorException($message, 0, $level, $file, $line);
});

function client(array $o): Client
{
    return new Client($o['url'], $o['token'], array_diff_key($o, ['url' => 0, 'token' => 0]));
}

function run(array $c)
{
    $k = client($c['client']);
    $push = $c['push'] ?? [];
    if (isset($c['due'])) {
        $push['due_at'] = new DateTimeImmutable($c['due']);
    }
    switch ($c['op']) {
        case 'push':
            return $k->push($c['topic'], $push);
        case 'push_batch':
            $results = $k->pushBatch($c['pushes']);
            return array_map(static fn ($r) => $r instanceof ApiException ? outcome($r) : $r, $results);
        case 'change':
            return $k->change($c['topic'], $c['id'], $push, $c['etag'] ?? '');
        case 'delete':
            return $k->delete($c['topic'], $c['id'], $c['etag'] ?? '');
        case 'get':
        case 'run':
            return $k->{$c['op']}($c['topic'], $c['id']);
        case 'jobs':
            return iterator_to_array($k->jobs($c['topic'], $c['state'], $c['filter'] ?? []), false);
        case 'retry_dead':
            return $k->retryDead($c['topic'], $c['how']);
        case 'delete_dead':
            return $k->deleteDead($c['topic'], $c['how']);
        case 'search':
            return $k->search($c['id'], $c['topic']);
        case 'topics':
            $filter = array_intersect_key($c, ['prefix' => 0, 'state' => 0, 'owner' => 0]);
            return iterator_to_array($k->topics($filter), false);
        case 'topic':
            return $k->topic($c['name']);
        case 'put_topic':
            return $k->putTopic($c['name'], $c['settings'], $c['reason'] ?? '', $c['etag'] ?? '');
        case 'patch_topic':
            return $k->patchTopic($c['name'], $c['patch'], $c['etag'] ?? '');
        case 'pause_topic':
            return $k->pauseTopic($c['name'], $c['reason'] ?? '', until($c));
        case 'resume_topic':
            return $k->resumeTopic($c['name']);
        case 'delete_topic':
            return $k->deleteTopic($c['name'], $c['drop'] ?? false);
        case 'group':
            return $k->group($c['name'], $c['limit'] ?? null);
        case 'cancel_group':
            return $k->cancelGroup($c['name'], $c['close'] ?? null);
        case 'move_group':
            $due = isset($c['due']) ? ['due_at' => new DateTimeImmutable($c['due'])] : [];
            return $k->moveGroup($c['name'], $c['move'] + $due, $c['key'] ?? '');
        case 'start_task':
            return $k->startTask($c['task'], $c['key'] ?? '');
        case 'task':
            return $k->task($c['name']);
        case 'tasks':
            return $k->tasks($c['limit'] ?? null);
        case 'cancel_task':
            return $k->cancelTask($c['name']);
        case 'schedules':
            return iterator_to_array($k->schedules($c['topic']), false);
        case 'schedule':
            return $k->schedule($c['name']);
        case 'put_schedule':
            return $k->putSchedule($c['name'], $c['schedule']);
        case 'delete_schedule':
            return $k->deleteSchedule($c['name']);
        case 'pause_schedule':
            return $k->pauseSchedule($c['name'], until($c));
        case 'resume_schedule':
            return $k->resumeSchedule($c['name'], $c['catch_up']);
        case 'run_schedule':
            return $k->runSchedule($c['name']);
        case 'backfill_schedule':
            $period = ['from' => new DateTimeImmutable($c['from']), 'to' => new DateTimeImmutable($c['to'])];
            $options = ['overlap' => $c['overlap'] ?? null, 'dry_run' => $c['dry_run']];
            return $k->backfillSchedule($c['name'], $period + $options);
        case 'reserve':
            $options = array_intersect_key($c, ['max' => 0, 'wait' => 0, 'ttr' => 0, 'order' => 0]);
            return $k->reserve(['a key' => $c['topic']], $options);
        case 'drain':
            return drain($k, $c['topic']);
        case 'verify':
            return Signature::verify($c['secrets'], $c['headers'], $c['body']);
        default:
            return $k->{$c['op']}($c['lease'], ...$c['args']);
    }
}

function until(array $c): string|DateTimeImmutable|null
{
    if (isset($c['for'])) {
        return "{$c['for']}s";
    }
    return isset($c['until']) ? new DateTimeImmutable($c['until']) : null;
}

function drain(Client $k, string $topic): array
{
    $ids = ['read' => [], 'unreadable' => []];
    foreach ($k->reserve($topic, ['max' => 100]) as $job) {
        $ids[array_key_exists('body', $job) ? 'read' : 'unreadable'][] = $job['id'];
        isset($job['unreadable']) ? $k->release($job['lease'], 3600) : $k->ack($job['lease']);
    }
    return $ids;
}

function outcome(Throwable $e): array
{
    $fields = get_object_vars($e) + ['errorCode' => '', 'requestId' => '', 'outcomeUnknown' => false];
    return ['error' => [
        'kind' => str_replace('Exception', 'Error', (new ReflectionClass($e))->getShortName()),
        'text' => $e->getMessage(), 'code' => $fields['errorCode'], 'request_id' => $fields['requestId'],
        'outcome_unknown' => $fields['outcomeUnknown'],
    ] + $fields];
}

$handle = static function (array $job) use (&$k): void {
    echo json_encode(['id' => $job['id'], 'attempt' => $job['attempt']]), "\n";
    switch ($job['body']) {
        case 'fail':
            throw new RuntimeException('it failed: ü' . str_repeat('ü', 400));
        case 'release':
            throw new Released('1h');
        case 'bury':
            throw new Buried('never');
        case 'slow': // PHP's handlers extend their leases themselves
            for ($i = 0; $i < 5; $i++) {
                usleep(500000);
                $k->extend($job['lease']);
            }
            return;
        case 'hang':
            sleep(600);
    }
};

if (($argv[1] ?? '') === 'work') {
    $stop = false;
    pcntl_async_signals(true);
    pcntl_signal(SIGTERM, static function () use (&$stop): void {
        echo "stopping\n";
        $stop = true;
    });
    $k = new Client(getenv('WAKECALL_URL'), getenv('WAKECALL_TOKEN'));
    $k->work([$argv[2]], $handle, ['wait' => 1, 'stop' => static function () use (&$stop): bool {
        return $stop;
    }, 'failed' => static function (Exception $e): void {
        fwrite(STDERR, "$e\n");
    }]);
    exit;
}
while (($line = fgets(STDIN)) !== false) {
    try {
        $answer = ['value' => run(json_decode($line, true, 512, JSON_THROW_ON_ERROR))];
    } catch (Throwable $e) {
        $answer = outcome($e);
    }
    echo json_encode($answer, JSON_THROW_ON_ERROR | JSON_PARTIAL_OUTPUT_ON_ERROR), "\n";
}
