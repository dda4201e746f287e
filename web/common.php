<?php
// What all scripts share: which blob is asked for, which part of it, and how it is sent.
declare(strict_types=1);

set_exception_handler(function (Throwable $error): void {
    // The visitor learns that it failed; why is for the log.
    error_log((string) $error);
    http_response_code(500);
});

/** Settings that the server's owner wrote beside the scripts. */
function setting(string $name): string
{
    static $settings = null;
    $settings ??= require __DIR__ . '/settings.php';
    return $settings[$name];
}

/** Does a part of the work; where the row is to be timed, tells how long it took in a header, which comes before the blob. */
function timed(string $part, callable $work): mixed
{
    if (setting('timed') !== 'true') {
        return $work();
    }
    $begin = hrtime(true);
    $result = $work();
    header(sprintf('Server-Timing: %s;dur=%.6f', $part, (hrtime(true) - $begin) / 1e6), false);
    return $result;
}

/** Ends the request with a status and no text. */
function refuse(int $status): never
{
    http_response_code($status);
    header('Content-Length: 0');
    exit;
}

/** The same key, which must be 32 hexadecimal digits: it becomes part of a path. */
function checked_key(string $key): string
{
    return preg_match('/^[0-9a-f]{32}$/D', $key) === 1 ? $key : refuse(400);
}

/** The key in the query. */
function asked_key(): string
{
    $key = $_GET['key'] ?? '';
    return is_string($key) ? checked_key($key) : refuse(400);
}

/** Where several blobs are asked for at once, sends those that `$blobs` finds for their keys, by key, and ends the request. */
function answer_for_several(callable $blobs): void
{
    if (!is_string($_GET['keys'] ?? null)) {
        return;
    }
    $keys = array_map(checked_key(...), explode(',', $_GET['keys']));
    send_several($keys, $blobs($keys));
    exit;
}

/** Sends several blobs in the order of their keys: before each a line with its number of bytes, or `-` where there is none. */
function send_several(array $keys, array $blobs): void
{
    header('Content-Type: application/octet-stream');
    $length = 0;
    foreach ($keys as $key) {
        $length += isset($blobs[$key]) ? strlen((string) strlen($blobs[$key])) + 1 + strlen($blobs[$key]) : 2;
    }
    header("Content-Length: $length");
    foreach ($keys as $key) {
        if (isset($blobs[$key])) {
            echo strlen($blobs[$key]), "\n", $blobs[$key];
        } else {
            echo "-\n";
        }
    }
}

/** The part that is asked for as [first byte, number of bytes], or null for the whole. Suffixes and lists are not understood,
 *  and what is not understood is the whole, as the protocol allows. */
function asked_part(): ?array
{
    $range = $_SERVER['HTTP_RANGE'] ?? '';
    if (preg_match('/^bytes=(\d{1,18})-(\d{1,18})$/D', $range, $found) !== 1 || $found[2] < $found[1]) {
        return null;
    }
    return [(int) $found[1], $found[2] - $found[1] + 1];
}

/** Sends the head for a blob of `$size` bytes, or the part of it, and returns how many bytes are to follow. */
function send_head(int $size, ?array $part): int
{
    header('Content-Type: application/octet-stream');
    header('Accept-Ranges: bytes');
    $length = $size;
    if ($part !== null) {
        [$from, $length] = $part;
        if ($from >= $size) {
            header("Content-Range: bytes */$size");
            refuse(416);
        }
        $length = min($length, $size - $from);
        http_response_code(206);
        header(sprintf('Content-Range: bytes %d-%d/%d', $from, $from + $length - 1, $size));
    }
    header("Content-Length: $length");
    return $_SERVER['REQUEST_METHOD'] === 'HEAD' ? 0 : $length;
}

/** Sends a blob that is in memory. */
function send_blob(string $blob): void
{
    $part = asked_part();
    $length = send_head(strlen($blob), $part);
    echo $part === null && $length > 0 ? $blob : substr($blob, $part[0] ?? 0, $length);
}

/** Where a blob's file is: in a directory named after its first two digits. */
function file_of(string $key): string
{
    return setting('blobs') . '/' . substr($key, 0, 2) . '/' . $key;
}

/** Tells versions of a file apart: one that is replaced is another file. */
function mark_of(array $status): string
{
    return sprintf('"%x-%x-%x"', $status['ino'], $status['mtime'], $status['size']);
}

/** Ends the request when the visitor has this version already. */
function spare_what_is_known(string $mark): void
{
    header("ETag: $mark");
    if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === $mark) {
        http_response_code(304);
        exit;
    }
}

/** The whole blob from its file, or null when there is none. */
function blob_from_file(string $key): ?string
{
    $blob = @file_get_contents(file_of($key));
    return $blob === false ? null : $blob;
}

/** Lets nobody in who does not know the token. */
function require_token(): void
{
    if (!hash_equals(setting('token'), $_SERVER['HTTP_X_TOKEN'] ?? '')) {
        refuse(403);
    }
}
