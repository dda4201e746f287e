<?php
// Decides which file a visitor may have, and lets the web server send it.
declare(strict_types=1);
require __DIR__ . '/common.php';

$key = asked_key();
header('Content-Type: application/octet-stream');
if (setting('handover') === 'X-Accel-Redirect') {
    header('X-Accel-Redirect: /handover/' . substr($key, 0, 2) . '/' . $key);
} else {
    header('X-Sendfile: ' . file_of($key));
}
