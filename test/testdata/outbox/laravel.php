<?php
// Calls a function of the page's program: php laravel.php FUNCTION ORDER

require 'Illuminate/Database/autoload.php';

use Illuminate\Database\Capsule\Manager;
use Illuminate\Support\Facades\Facade;

$capsule = new Manager();
$capsule->addConnection([
    'driver' => ['sqlite' => 'sqlite', 'mysql' => 'mysql', 'postgres' => 'pgsql'][getenv('DB_KIND')],
    'host' => getenv('DB_HOST'), 'port' => getenv('DB_PORT'), 'database' => getenv('DB_NAME'),
    'username' => getenv('DB_USER'), 'password' => getenv('DB_PASSWORD'),
    'options' => getenv('DB_KIND') === 'sqlite' ? [PDO::ATTR_TIMEOUT => 30] : [],
]);
$container = $capsule->getContainer();
$container->instance('db', $capsule->getDatabaseManager());
Facade::setFacadeApplication($container);

require 'orders.php';

$argv[1]((int) $argv[2]);
