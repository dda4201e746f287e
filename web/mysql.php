<?php
// Sends a blob out of a table of MySQL or MariaDB.
declare(strict_types=1);
require __DIR__ . '/common.php';

/** The first row of a prepared statement. */
function first_row(mysqli $database, string $sql, array $values): ?array
{
    $statement = $database->prepare($sql);
    $statement->execute($values);
    $row = $statement->get_result()->fetch_row();
    // A procedure answers twice: its rows, then how it ended.
    while ($statement->more_results() && $statement->next_result()) {
    }
    return $row ?: null;
}

/** The first row of a statement as text. */
function first_row_of_text(mysqli $database, string $sql): ?array
{
    return $database->query($sql)->fetch_row() ?: null;
}

/** Several blobs by one statement, by key. */
function several(mysqli $database, array $keys): array
{
    $of = 'SELECT hash, content FROM blobs WHERE hash IN';
    if (setting('protocol') === 'text') {
        $list = array_map(fn(string $key): string => "'" . $database->real_escape_string($key) . "'", $keys);
        $rows = $database->query("$of (" . implode(',', $list) . ')')->fetch_all();
    } else {
        $statement = $database->prepare("$of (" . implode(',', array_fill(0, count($keys), '?')) . ')');
        $statement->execute($keys);
        $rows = $statement->get_result()->fetch_all();
    }
    return array_column($rows, 1, 0);
}

// `p:` keeps the connection for the next request of the same process.
$host = (setting('connection') === 'kept' ? 'p:' : '') . setting('host');
$database = new mysqli($host, setting('user'), setting('password'), setting('database'), 0, setting('socket'));
answer_for_several(fn(array $keys): array => several($database, $keys));
$key = asked_key();
$part = asked_part();
if ($part !== null) {
    // Positions in SQL count from 1.
    [$from, $bytes] = [$part[0] + 1, $part[1]];
    $row = match (setting('protocol')) {
        'text' => first_row_of_text(
            $database,
            "SELECT SUBSTRING(content, $from, $bytes), LENGTH(content) FROM blobs WHERE hash = '"
                . $database->real_escape_string($key) . "'"
        ),
        default => first_row(
            $database,
            'SELECT SUBSTRING(content, ?, ?), LENGTH(content) FROM blobs WHERE hash = ?',
            [$from, $bytes, $key]
        ),
    } ?? refuse(404);
    $length = send_head((int) $row[1], $part);
    echo substr($row[0], 0, $length);
    exit;
}
$row = match (setting('protocol')) {
    'text' => first_row_of_text(
        $database,
        "SELECT content FROM blobs WHERE hash = '" . $database->real_escape_string($key) . "'"
    ),
    'procedure' => first_row($database, 'CALL get_blob(?)', [$key]),
    default => first_row($database, 'SELECT content FROM blobs WHERE hash = ?', [$key]),
};
send_blob($row[0] ?? refuse(404));
