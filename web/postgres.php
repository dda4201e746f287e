<?php
// Sends a blob out of a table of PostgreSQL.
declare(strict_types=1);
require __DIR__ . '/common.php';

/** A value inside a connection string. */
function quoted(string $value): string
{
    return "'" . addcslashes($value, "'\\") . "'";
}

/** What a statement with parameters answers. */
function result_of(PgSql\Connection $database, string $sql, array $values): PgSql\Result
{
    $result = pg_query_params($database, $sql, $values);
    return $result === false ? throw new RuntimeException(pg_last_error($database)) : $result;
}

/** The first row of a statement with parameters, or null when there is none. */
function first_row(PgSql\Connection $database, string $sql, array $values): ?array
{
    return pg_fetch_row(result_of($database, $sql, $values)) ?: null;
}

/** Several blobs by one statement, by key. */
function several(PgSql\Connection $database, array $keys): array
{
    // Keys are hexadecimal digits: nothing in them means anything to an array's text.
    $list = ['{' . implode(',', $keys) . '}'];
    $result = result_of($database, 'SELECT key, data FROM blobs WHERE key = ANY($1::text[])', $list);
    return array_map(pg_unescape_bytea(...), array_column(pg_fetch_all($result, PGSQL_NUM), 1, 0));
}

$target = sprintf(
    'host=%s user=%s password=%s dbname=%s options=%s',
    quoted(setting('socket') !== '' ? setting('socket') : setting('host')),
    quoted(setting('user')),
    quoted(setting('password')),
    quoted(setting('database')),
    quoted('-c search_path=' . setting('schema'))
);
$database = timed(
    'connect',
    fn(): PgSql\Connection|false => setting('connection') === 'kept'
        ? pg_pconnect($target)
        : pg_connect($target, PGSQL_CONNECT_FORCE_NEW)
);
if ($database === false) {
    throw new RuntimeException('no connection to PostgreSQL');
}
answer_for_several(fn(array $keys): array => timed('fetch', fn(): array => several($database, $keys)));
$key = asked_key();
$part = asked_part();
if ($part !== null) {
    // Positions in SQL count from 1.
    $row = timed('fetch', fn(): ?array => first_row(
        $database,
        'SELECT substring(data FROM $1::int FOR $2::int), octet_length(data) FROM blobs WHERE key = $3',
        [min($part[0], 0x7ffffffe) + 1, min($part[1], 0x7fffffff), $key]
    )) ?? refuse(404);
    $length = send_head((int) $row[1], $part);
    echo substr(pg_unescape_bytea($row[0]), 0, $length);
    exit;
}
$blob = timed('fetch', function () use ($database, $key): ?string {
    $row = first_row($database, 'SELECT data FROM blobs WHERE key = $1', [$key]);
    return $row === null ? null : pg_unescape_bytea($row[0]);
});
send_blob($blob ?? refuse(404));
