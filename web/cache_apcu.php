<?php
// A cache in the memory that all of PHP's processes share.
declare(strict_types=1);

/** Nothing has to be made ready. */
function cache_ready(): void
{
}

function cache_get(string $key): ?string
{
    $blob = apcu_fetch($key, $found);
    return $found ? $blob : null;
}

/** Those of the blobs that are there, by key. */
function cache_get_several(array $keys): array
{
    return apcu_fetch($keys) ?: [];
}

/** Keeps a blob that is not there yet: one that somebody put meanwhile is newer. */
function cache_add(string $key, string $blob): void
{
    apcu_add($key, $blob);
}

function cache_put(string $key, string $blob): bool
{
    return apcu_store($key, $blob);
}

function cache_delete(string $key): bool
{
    return apcu_delete($key) || !apcu_exists($key);
}
