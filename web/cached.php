<?php
// Sends a blob out of a cache, and out of its file when the cache does not have it.
declare(strict_types=1);
require __DIR__ . '/common.php';
require __DIR__ . '/cache.php';

/** A blob from its file, which from then on is in the cache; null where there is none. */
function blob_into_cache(string $key): ?string
{
    $blob = blob_from_file($key);
    if ($blob === null) {
        return null;
    }
    cache_add($key, $blob);
    clearstatcache();
    if (!is_file(file_of($key))) {
        // Deleted meanwhile, before it was in the cache.
        cache_delete($key);
    }
    return $blob;
}

cache_ready();
answer_for_several(function (array $keys): array {
    $blobs = timed('fetch', fn(): array => cache_get_several($keys));
    $missing = array_filter($keys, fn(string $key): bool => !isset($blobs[$key]));
    header('X-Cache: ' . ($missing === [] ? 'hit' : 'miss'));
    foreach ($missing as $key) {
        $blobs[$key] = blob_into_cache($key);
    }
    return $blobs;
});
$key = asked_key();
$blob = timed('fetch', fn(): ?string => cache_get($key));
header('X-Cache: ' . ($blob === null ? 'miss' : 'hit'));
send_blob($blob ?? blob_into_cache($key) ?? refuse(404));
