<?php
// Sends a blob out of its file through PHP.
declare(strict_types=1);
require __DIR__ . '/common.php';

answer_for_several(fn(array $keys): array => array_combine($keys, array_map(blob_from_file(...), $keys)));
// Opened once: a file that is replaced between asking for its size and sending it would not fit its head.
$file = @fopen(file_of(asked_key()), 'rb');
if ($file === false) {
    refuse(404);
}
$status = fstat($file);
spare_what_is_known(mark_of($status));
$part = asked_part();
$length = send_head($status['size'], $part);
if ($part === null && $length > 0) {
    fpassthru($file);
    exit;
}
fseek($file, $part[0] ?? 0);
while ($length > 0 && ($piece = fread($file, min($length, 1 << 16))) !== false && $piece !== '') {
    echo $piece;
    $length -= strlen($piece);
}
