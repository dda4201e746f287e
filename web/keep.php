<?php
// Lets the owner of the blobs put one into the cache (PUT) or out of it (DELETE).
declare(strict_types=1);
require __DIR__ . '/common.php';
require __DIR__ . '/cache.php';

require_token();
$key = asked_key();
$done = match ($_SERVER['REQUEST_METHOD']) {
    'PUT' => cache_put($key, file_get_contents('php://input')),
    'DELETE' => cache_delete($key),
    default => refuse(405),
};
if (!$done) {
    // Nothing rather than the old one.
    cache_delete($key);
}
// 507: the cache has no room for it.
refuse($done ? 204 : 507);
