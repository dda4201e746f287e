<?php
// Sends a blob out of a table of MySQL or MariaDB.
declare(strict_types=1);
require __DIR__ . '/common.php';
require __DIR__ . '/driver.php';

/** The first row of what a statement answers whose values are sent as the row's protocol has it; null when there is none. */
function first_row(Database $database, string $sql, array $values): ?array
{
    return rows($database, $sql, $values)[0] ?? null;
}

/** Rows of a statement with `?` for its values. */
function rows(Database $database, string $sql, array $values): array
{
    if (setting('protocol') !== 'text') {
        return $database->prepared($sql, $values);
    }
    // Numbers stand for themselves, and there is no other `?` in our statements.
    $written = array_map(fn(int|string $value): string => is_int($value) ? (string) $value : $database->quoted($value), $values);
    return $database->text(vsprintf(str_replace('?', '%s', $sql), $written));
}

/** Several blobs by one statement, by key. */
function several(Database $database, array $keys): array
{
    $places = implode(',', array_fill(0, count($keys), '?'));
    return array_column(rows($database, "SELECT hash, content FROM blobs WHERE hash IN ($places)", $keys), 1, 0);
}

$database = timed('connect', fn(): Database => new Database());
answer_for_several(fn(array $keys): array => timed('fetch', fn(): array => several($database, $keys)));
$key = asked_key();
$part = asked_part();
if ($part !== null) {
    // Positions in SQL count from 1.
    $row = timed('fetch', fn(): ?array => first_row(
        $database,
        'SELECT SUBSTRING(content, ?, ?), LENGTH(content) FROM blobs WHERE hash = ?',
        [$part[0] + 1, $part[1], $key]
    )) ?? refuse(404);
    $length = send_head((int) $row[1], $part);
    echo substr($row[0], 0, $length);
    exit;
}
$sql = setting('protocol') === 'procedure' ? 'CALL get_blob(?)' : 'SELECT content FROM blobs WHERE hash = ?';
$row = timed('fetch', fn(): ?array => first_row($database, $sql, [$key]));
send_blob($row[0] ?? refuse(404));
