//! Permissions that a user needs in a server given by URL: the table behind docs/servers.md. Tests revoke each of them on real
//! servers.

/// The permissions that a user needs in one kind of server.
pub struct ServerRights {
    /// The server products.
    pub server: &'static str,
    /// Statements that give all of them to a new user `bench`, for an administrator to paste.
    pub statements: &'static str,
    /// Each permission, with what needs it.
    pub rights: &'static [Right],
}

/// Permissions that belong together.
pub struct Right {
    /// Their names, as the server spells them.
    pub names: &'static [&'static str],
    /// The object that they apply to.
    pub to: &'static str,
    /// What needs them.
    pub needed_for: &'static str,
    /// What a run does without them.
    pub without: RightFallback,
}

impl Right {
    /// Permissions without which a run is refused.
    const fn new(names: &'static [&'static str], to: &'static str, needed_for: &'static str) -> Right {
        Right { names, to, needed_for, without: RightFallback::Refused }
    }

    /// The same permissions with another fallback.
    const fn without(self, without: RightFallback) -> Right {
        Right { without, ..self }
    }
}

/// What a run does without a permission.
pub enum RightFallback {
    /// It is refused before anything is made.
    Refused,
    /// It continues without what is named here.
    Lacks(&'static str),
}

/// The table, by server product.
pub const TABLE: &[ServerRights] = &[
    ServerRights {
        server: "PostgreSQL",
        statements: "CREATE ROLE bench LOGIN PASSWORD 'PASSWORD'; GRANT CONNECT, CREATE ON DATABASE shop TO bench;",
        rights: &[
            Right::new(&["CONNECT", "CREATE"], "the database", "every run"),
            Right::new(
                &["EXECUTE", "USAGE"],
                "the functions of large objects and the language plpgsql, which everybody has unless it was revoked",
                "`postgres/large-object`",
            ),
            Right::new(&["SELECT"], "`pg_largeobject`", "the footprint of `postgres/large-object`")
                .without(RightFallback::Lacks("has no footprint")),
            Right::new(&["membership"], "the role that owns what a killed run left", "removing that")
                .without(RightFallback::Lacks("leaves it there")),
        ],
    },
    ServerRights {
        server: "MySQL, MariaDB",
        statements: "CREATE USER bench@'%' IDENTIFIED BY 'PASSWORD';
GRANT CREATE, DROP, SELECT, INSERT, UPDATE, DELETE, REFERENCES, CREATE ROUTINE ON `blobwise\\_%`.* TO bench@'%';
GRANT RELOAD ON *.* TO bench@'%';",
        rights: &[
            Right::new(
                &["CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE"],
                "databases `blobwise\\_%`",
                "every run",
            ),
            Right::new(&["REFERENCES"], "databases `blobwise\\_%`", "`mysql/chunked`, not MariaDB"),
            Right::new(&["CREATE ROUTINE"], "databases `blobwise\\_%`", "`protocol=procedure`"),
            Right::new(&["RELOAD"], "`*.*`", "MySQL in the class on-sync, not MariaDB"),
        ],
    },
    ServerRights {
        server: "Redis, Valkey",
        statements: "ACL SETUSER bench on >PASSWORD ~blobwise_* +set +mset +get +getrange +mget +exists +del +scan +hset +hmget +type \
                     +select +config|get +info +memory|usage",
        rights: &[
            Right::new(
                &["+set", "+mset", "+get", "+getrange", "+mget", "+exists", "+del", "+scan", "+hset", "+hmget", "+type"],
                "keys `~blobwise_*`",
                "every run",
            ),
            Right::new(&["+select"], "", "a database other than 0"),
            Right::new(&["+config|get"], "", "the classes on-sync and each-write, and settings as facts"),
            Right::new(&["+waitaof"], "", "the class on-sync with `appendfsync everysec`, from Redis 7.2 on"),
            Right::new(&["+info"], "", "the memory that is left, and waiting for background work")
                .without(RightFallback::Lacks("does neither")),
            Right::new(&["+memory|usage"], "", "the footprint")
                .without(RightFallback::Lacks("has no footprint")),
        ],
    },
    ServerRights {
        server: "S3",
        statements: r#"{"Effect":"Allow","Action":["s3:ListBucket","s3:GetBucketVersioning","s3:ListBucketMultipartUploads"],"Resource":"arn:aws:s3:::shop"},
{"Effect":"Allow","Action":["s3:GetObject","s3:PutObject","s3:DeleteObject","s3:AbortMultipartUpload"],"Resource":"arn:aws:s3:::shop/blobwise-*"}"#,
        rights: &[
            Right::new(&["s3:ListBucket", "s3:GetBucketVersioning"], "the bucket", "every run"),
            Right::new(
                &["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
                "objects `blobwise-*`",
                "every run",
            ),
            Right::new(
                &["s3:ListBucketMultipartUploads"],
                "the bucket",
                "blobs larger than the option `multipart`",
            ),
            Right::new(
                &["s3:AbortMultipartUpload"],
                "objects `blobwise-*`",
                "blobs larger than the option `multipart`",
            ),
        ],
    },
    ServerRights {
        server: "MongoDB",
        statements: "db.getSiblingDB('admin').createUser({user: 'bench', pwd: 'PASSWORD', roles: ['readWriteAnyDatabase', \
                     'dbAdminAnyDatabase', 'clusterMonitor']})",
        rights: &[
            Right::new(
                &["readWriteAnyDatabase", "dbAdminAnyDatabase"],
                "`admin`: a role has no patterns of databases",
                "every run",
            ),
            Right::new(&["clusterMonitor"], "`admin`", "classes above none, and settings as facts"),
        ],
    },
    ServerRights {
        server: "SQL Server",
        statements: "CREATE LOGIN bench WITH PASSWORD = 'PASSWORD'; USE shop; CREATE USER bench FOR LOGIN bench;
GRANT CREATE SCHEMA, CREATE TABLE, VIEW DATABASE STATE TO bench;",
        rights: &[
            Right::new(&["CREATE SCHEMA", "CREATE TABLE"], "the database", "every run"),
            Right::new(&["VIEW DATABASE STATE"], "the database", "the footprint to the page")
                .without(RightFallback::Lacks("asks `sp_spaceused`")),
        ],
    },
];
