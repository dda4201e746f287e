<?php
// Sends a blob out of a cache, and out of its file when the cache does not have it.
declare(strict_types=1);
require __DIR__ . '/common.php';
require __DIR__ . '/cache.php';

$key = asked_key();
$blob = cache_get($key);
header('X-Cache: ' . ($blob === null ? 'miss' : 'hit'));
if ($blob === null) {
    $blob = blob_from_file($key) ?? refuse(404);
    cache_add($key, $blob);
    clearstatcache();
    if (!is_file(file_of($key))) {
        // Deleted meanwhile, before it was in the cache.
        cache_delete($key);
    }
}
send_blob($blob);
