<?php
// Uses pheanstalk as a producer and a worker do. Prints ok, or what is wrong.
require '/usr/share/php/Pheanstalk/autoload.php';

use Pheanstalk\Pheanstalk;

function check($what, $got, $want) {
    if ($got != $want) {
        echo "$what: ", var_export($got, true), ', want ', var_export($want, true), "\n";
        exit(1);
    }
}

[, $host, $port] = $argv;
$producer = Pheanstalk::create($host, (int) $port);
$worker = Pheanstalk::create($host, (int) $port);
$job = $producer->useTube('mails')->put("body \x00\xff\r\n", 10, 0, 60);
$worker->watch('mails')->ignore('default');
check('tubes', $worker->listTubesWatched(), ['mails']);
$got = $worker->reserveWithTimeout(10);
check('id', $got->getId(), $job->getId());
check('body', $got->getData(), "body \x00\xff\r\n");
$worker->touch($got);
$worker->release($got, 10, 0);
$got = $worker->reserve();
check('reserves', $worker->statsJob($got)['reserves'], 2);
$worker->bury($got);
check('buried', $producer->peekBuried()->getId(), $job->getId());
check('kicked', $producer->kick(10), 1);
$got = $worker->reserveWithTimeout(10);
$worker->delete($got);
check('nothing', $worker->reserveWithTimeout(0), null);
$later = $producer->put('later', 10, 3600, 60);
check('delayed', $producer->peekDelayed()->getData(), 'later');
check('state', $producer->statsJob($later)['state'], 'delayed');
$producer->kickJob($later);
check('ready', $producer->peekReady()->getId(), $later->getId());
$producer->delete($later);
check('stats of the tube', $producer->statsTube('mails')['current-jobs-ready'], 0);
check('server', (int) $producer->stats()['max-job-size'], 65535);
echo "ok\n";
