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

/// What a run does without a permission.
pub enum RightFallback {
    /// It is refused before anything is made.
    Refused,
    /// It continues without what is named here.
    Lacks(&'static str),
    /// It fails with the server's own error.
    Fails,
}

/// The table, by server product.
pub const TABLE: &[ServerRights] = &[
    ServerRights {
        server: "PostgreSQL",
        statements: "CREATE ROLE bench LOGIN PASSWORD 'PASSWORD'; GRANT CONNECT, CREATE ON DATABASE shop TO bench;",
        rights: &[
            Right {
                names: &["CONNECT", "CREATE"],
                to: "the database",
                needed_for: "every run",
                without: RightFallback::Refused,
            },
            Right {
                names: &["EXECUTE", "USAGE"],
                to: "the functions of large objects and the language plpgsql, which everybody has unless it was revoked",
                needed_for: "`postgres/large-object`",
                without: RightFallback::Refused,
            },
            Right {
                names: &["SELECT"],
                to: "`pg_largeobject`",
                needed_for: "the footprint of `postgres/large-object`",
                without: RightFallback::Lacks("has no footprint"),
            },
            Right {
                names: &["membership"],
                to: "the role that owns what a killed run left",
                needed_for: "removing that",
                without: RightFallback::Lacks("leaves it there"),
            },
        ],
    },
    ServerRights {
        server: "MySQL, MariaDB",
        statements: "CREATE USER bench@'%' IDENTIFIED BY 'PASSWORD';
GRANT CREATE, DROP, SELECT, INSERT, UPDATE, DELETE, REFERENCES, CREATE ROUTINE ON `blobwise\\_%`.* TO bench@'%';
GRANT RELOAD ON *.* TO bench@'%';",
        rights: &[
            Right {
                names: &["CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE"],
                to: "databases `blobwise\\_%`",
                needed_for: "every run",
                without: RightFallback::Refused,
            },
            Right {
                names: &["REFERENCES"],
                to: "databases `blobwise\\_%`",
                needed_for: "`mysql/chunked`, not MariaDB",
                without: RightFallback::Refused,
            },
            Right {
                names: &["CREATE ROUTINE"],
                to: "databases `blobwise\\_%`",
                needed_for: "`protocol=procedure`",
                without: RightFallback::Refused,
            },
            Right {
                names: &["RELOAD"],
                to: "`*.*`",
                needed_for: "MySQL in the class on-sync, not MariaDB",
                without: RightFallback::Refused,
            },
        ],
    },
    ServerRights {
        server: "Redis, Valkey",
        statements: "ACL SETUSER bench on >PASSWORD ~blobwise_* +set +mset +get +getrange +mget +exists +del +scan +hset +hmget +type \
                     +select +config|get +info +memory|usage",
        rights: &[
            Right {
                names: &[
                    "+set",
                    "+mset",
                    "+get",
                    "+getrange",
                    "+mget",
                    "+exists",
                    "+del",
                    "+scan",
                    "+hset",
                    "+hmget",
                    "+type",
                ],
                to: "keys `~blobwise_*`",
                needed_for: "every run",
                without: RightFallback::Refused,
            },
            Right {
                names: &["+select"],
                to: "",
                needed_for: "a database other than 0",
                without: RightFallback::Refused,
            },
            Right {
                names: &["+config|get"],
                to: "",
                needed_for: "the classes on-sync and each-write, and settings as facts",
                without: RightFallback::Refused,
            },
            Right {
                names: &["+waitaof"],
                to: "",
                needed_for: "the class on-sync with `appendfsync everysec`, from Redis 7.2 on",
                without: RightFallback::Refused,
            },
            Right {
                names: &["+info"],
                to: "",
                needed_for: "the memory that is left, and waiting for background work",
                without: RightFallback::Lacks("does neither"),
            },
            Right {
                names: &["+memory|usage"],
                to: "",
                needed_for: "the footprint",
                without: RightFallback::Lacks("has no footprint"),
            },
        ],
    },
    ServerRights {
        server: "S3",
        statements: r#"{"Effect":"Allow","Action":["s3:ListBucket","s3:GetBucketVersioning","s3:ListBucketMultipartUploads"],"Resource":"arn:aws:s3:::shop"},
{"Effect":"Allow","Action":["s3:GetObject","s3:PutObject","s3:DeleteObject","s3:AbortMultipartUpload"],"Resource":"arn:aws:s3:::shop/blobwise-*"}"#,
        rights: &[
            Right {
                names: &["s3:ListBucket", "s3:GetBucketVersioning"],
                to: "the bucket",
                needed_for: "every run",
                without: RightFallback::Refused,
            },
            Right {
                names: &["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
                to: "objects `blobwise-*`",
                needed_for: "every run",
                without: RightFallback::Refused,
            },
            Right {
                names: &["s3:ListBucketMultipartUploads"],
                to: "the bucket",
                needed_for: "blobs larger than the option `multipart`",
                without: RightFallback::Refused,
            },
            Right {
                names: &["s3:AbortMultipartUpload"],
                to: "objects `blobwise-*`",
                needed_for: "blobs larger than the option `multipart`",
                without: RightFallback::Refused,
            },
        ],
    },
    ServerRights {
        server: "MongoDB",
        statements: "db.getSiblingDB('admin').createUser({user: 'bench', pwd: 'PASSWORD', roles: ['readWriteAnyDatabase', \
                     'dbAdminAnyDatabase', 'clusterMonitor']})",
        rights: &[
            Right {
                names: &["readWriteAnyDatabase", "dbAdminAnyDatabase"],
                to: "`admin`: a role has no patterns of databases",
                needed_for: "every run",
                without: RightFallback::Fails,
            },
            Right {
                names: &["clusterMonitor"],
                to: "`admin`",
                needed_for: "classes above none, and settings as facts",
                without: RightFallback::Refused,
            },
        ],
    },
    ServerRights {
        server: "SQL Server",
        statements: "CREATE LOGIN bench WITH PASSWORD = 'PASSWORD'; USE shop; CREATE USER bench FOR LOGIN bench;
GRANT CREATE SCHEMA, CREATE TABLE, VIEW DATABASE STATE TO bench;",
        rights: &[
            Right {
                names: &["CREATE SCHEMA", "CREATE TABLE"],
                to: "the database",
                needed_for: "every run",
                without: RightFallback::Fails,
            },
            Right {
                names: &["VIEW DATABASE STATE"],
                to: "the database",
                needed_for: "the footprint to the page",
                without: RightFallback::Lacks("asks `sp_spaceused`"),
            },
        ],
    },
];
