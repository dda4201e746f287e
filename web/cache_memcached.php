<?php
// A cache in a memcached server, over a connection that each process keeps, or one for each request.
declare(strict_types=1);

function cache(): Memcached
{
    static $cache = null;
    if ($cache === null) {
        // A client with a name outlives the request, and its connection with it.
        $cache = new Memcached(setting('connection') === 'kept' ? 'blobs' : null);
        if ($cache->getServerList() === []) {
            $cache->setOptions([
                Memcached::OPT_COMPRESSION => false,
                Memcached::OPT_BINARY_PROTOCOL => false,
            ]);
            $cache->addServer(setting('socket'), 0);
        }
    }
    return $cache;
}

/** Makes the client ready. A new one connects with its first request. */
function cache_ready(): void
{
    cache();
}

function cache_get(string $key): ?string
{
    $blob = cache()->get($key);
    // Only what is not there is a miss: a cache that fails must not pass for one that is slow.
    return match (cache()->getResultCode()) {
        Memcached::RES_SUCCESS => $blob,
        Memcached::RES_NOTFOUND => null,
        default => throw new RuntimeException(cache()->getResultMessage()),
    };
}

/** Those of the blobs that are there, by key. */
function cache_get_several(array $keys): array
{
    $blobs = cache()->getMulti($keys);
    return $blobs === false ? throw new RuntimeException(cache()->getResultMessage()) : $blobs;
}

/** Keeps a blob that is not there yet: one that somebody put meanwhile is newer. */
function cache_add(string $key, string $blob): void
{
    cache()->add($key, $blob);
}

function cache_put(string $key, string $blob): bool
{
    return cache()->set($key, $blob);
}

function cache_delete(string $key): bool
{
    return cache()->delete($key) || cache()->getResultCode() === Memcached::RES_NOTFOUND;
}
