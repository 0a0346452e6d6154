<?php
// Calls a function of the page's program: php pdo.php FUNCTION ORDER

require 'orders.php';

$server = 'host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT') . ';dbname=' . getenv('DB_NAME');
$dsn = [
    'sqlite' => 'sqlite:' . getenv('DB_NAME'), 'mysql' => "mysql:$server", 'postgres' => "pgsql:$server",
][getenv('DB_KIND')];
$options = [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_TIMEOUT => 30];
$argv[1](new PDO($dsn, getenv('DB_USER'), getenv('DB_PASSWORD'), $options), (int) $argv[2]);
