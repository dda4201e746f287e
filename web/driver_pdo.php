<?php
// MySQL and MariaDB by PHP's PDO.
declare(strict_types=1);

final class Database
{
    private PDO $connection;

    public function __construct()
    {
        $place = setting('socket') === '' ? 'host=' . setting('host') : 'unix_socket=' . setting('socket');
        $this->connection = new PDO(
            'mysql:' . $place . ';dbname=' . setting('database'),
            setting('user'),
            setting('password'),
            [
                // Kept for the next request of the same process.
                PDO::ATTR_PERSISTENT => setting('connection') === 'kept',
                // It prepares everything that it sends, text too, or nothing.
                PDO::ATTR_EMULATE_PREPARES => setting('protocol') === 'text',
            ]
        );
    }

    /** The rows of a statement that is prepared and sent its values. */
    public function prepared(string $sql, array $values): array
    {
        $statement = $this->connection->prepare($sql);
        $statement->execute($values);
        $rows = $statement->fetchAll(PDO::FETCH_NUM);
        // A procedure answers twice: its rows, then how it ended.
        $statement->closeCursor();
        return $rows;
    }

    /** The rows of a statement as text. */
    public function text(string $sql): array
    {
        return $this->connection->query($sql)->fetchAll(PDO::FETCH_NUM);
    }

    /** A text inside a statement. */
    public function quoted(string $text): string
    {
        return $this->connection->quote($text);
    }
}
