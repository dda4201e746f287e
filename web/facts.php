<?php
// Tells the owner which versions and settings are at work.
declare(strict_types=1);
require __DIR__ . '/common.php';

require_token();
$facts = ['php' => PHP_VERSION, 'php interface' => PHP_SAPI];
foreach (['apcu', 'memcached', 'mysqli', 'pdo_mysql', 'pgsql', 'Zend OPcache'] as $extension) {
    if (phpversion($extension) !== false) {
        $facts["php $extension"] = phpversion($extension);
    }
}
foreach (['memory_limit', 'output_buffering', 'opcache.enable', 'apc.shm_size'] as $setting) {
    if (ini_get($setting) !== false) {
        $facts["php $setting"] = ini_get($setting) ?: 'off';
    }
}
if (function_exists('opcache_is_script_cached')) {
    // Asked of one that is as new as all others.
    $facts['php scripts'] = opcache_is_script_cached(__FILE__) ? 'compiled once' : 'compiled for each request';
}
$text = '';
foreach ($facts as $name => $value) {
    $text .= "$name\t$value\n";
}
header('Content-Type: application/octet-stream');
header('Content-Length: ' . strlen($text));
echo $text;
