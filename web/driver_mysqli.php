<?php
// MySQL and MariaDB by PHP's mysqli.
declare(strict_types=1);

final class Database
{
    private mysqli $connection;

    public function __construct()
    {
        // `p:` keeps the connection for the next request of the same process.
        $host = (setting('connection') === 'kept' ? 'p:' : '') . setting('host');
        $this->connection =
            new mysqli($host, setting('user'), setting('password'), setting('database'), 0, setting('socket'));
    }

    /** The rows of a statement that is prepared and sent its values. */
    public function prepared(string $sql, array $values): array
    {
        $statement = $this->connection->prepare($sql);
        $statement->execute($values);
        $rows = $statement->get_result()->fetch_all();
        // A procedure answers twice: its rows, then how it ended.
        while ($statement->more_results() && $statement->next_result()) {
        }
        return $rows;
    }

    /** The rows of a statement as text. */
    public function text(string $sql): array
    {
        return $this->connection->query($sql)->fetch_all();
    }

    /** A text inside a statement. */
    public function quoted(string $text): string
    {
        return "'" . $this->connection->real_escape_string($text) . "'";
    }
}
