//! Redis and Valkey: collects their statistics for the checks.

mod checks;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

pub use self::checks::CHECKS;
use super::facts::{Inspector, Row, SourceAnswer, UnknownReason, text};
use crate::store::Error;
use crate::wire::buffer::Address;
use crate::wire::redis::{Login, RedisClient, RedisError, RedisReply, parse_url};

/// A connection to a server.
pub struct RedisInspector {
    client: RedisClient,
    user: String,
}

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(25);

/// Parses a URL without connecting.
pub fn parse(url: &str) -> Result<(Address, Login)> {
    Ok(parse_url(url)?)
}

/// Connects and checks that the server answers PING.
pub fn connect((address, login): &(Address, Login)) -> Result<RedisInspector> {
    // All queries concern the whole server, so the user needs no right to any database.
    let mut client = RedisClient::log_in(address, login, PATIENCE)?;
    match client.ask(&[b"PING"]) {
        Err(Error::Failed(error))
            if error.downcast_ref().is_some_and(|error| RedisError::denied(error).is_some()) => {}
        answer => {
            let is_pong = answer? == RedisReply::Status("PONG".to_owned());
            ensure!(is_pong, "it does not answer as Redis or Valkey do");
        }
    }
    let user = if login.user.is_empty() { "default".to_owned() } else { login.user.clone() };
    Ok(RedisInspector { client, user })
}

impl RedisInspector {
    fn info(&mut self) -> SourceAnswer {
        match self.client.ask(&[b"INFO"]) {
            Ok(reply) => SourceAnswer::Rows(vec![pairs(&reply.text())]),
            Err(error) => SourceAnswer::Refused(self.lack(&error)),
        }
    }

    /// Error text; for a missing right, with the command that grants all rights needed.
    fn lack(&self, error: &Error) -> UnknownReason {
        let refused = match error {
            Error::Failed(error) => error.downcast_ref::<RedisError>(),
            _ => None,
        };
        match refused.and_then(RedisError::denied) {
            Some(_) => {
                let user = &self.user;
                format!(
                    "{error}; `ACL SETUSER {user} +ping +info +config|get +slowlog|len` lets the user see all"
                )
            }
            None => error.to_string(),
        }
    }

    fn settings(&mut self) -> SourceAnswer {
        const ASKED: &[&str] = &["save", "appendonly", "slowlog-log-slower-than"];
        let mut row = Row::new();
        for name in ASKED {
            match self.client.ask(&[b"CONFIG", b"GET", name.as_bytes()]) {
                Ok(reply) => {
                    row.extend(reply.members().get(1).map(|value| ((*name).to_owned(), json!(value))))
                }
                Err(error) => return SourceAnswer::Refused(self.lack(&error)),
            }
        }
        SourceAnswer::Rows(vec![row])
    }

    /// Number of slow commands noted. The log itself contains arguments, so it is not read.
    fn slow(&mut self) -> SourceAnswer {
        match self.client.ask(&[b"SLOWLOG", b"LEN"]) {
            Ok(RedisReply::Number(count)) => {
                SourceAnswer::Rows(vec![Row::from_iter([("count".to_owned(), json!(count))])])
            }
            Ok(_) => SourceAnswer::Refused("its slow log has no length".to_owned()),
            Err(error) => SourceAnswer::Refused(self.lack(&error)),
        }
    }
}

fn pairs(info: &str) -> Row {
    const READ: &[&str] = &[
        "aof_enabled",
        "aof_last_write_status",
        "evicted_keys",
        "connected_clients",
        "keyspace_hits",
        "keyspace_misses",
        "maxclients",
        "maxmemory",
        "maxmemory_policy",
        "mem_fragmentation_ratio",
        "rdb_changes_since_last_save",
        "rdb_last_bgsave_status",
        "redis_version",
        "rejected_connections",
        "role",
        "total_commands_processed",
        "total_system_memory",
        "uptime_in_seconds",
        "used_memory",
        "used_memory_rss",
        "valkey_version",
    ];
    let lines = info.lines().filter_map(|line| line.trim().split_once(':'));
    lines
        .filter(|(name, _)| READ.contains(name))
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect()
}

impl Inspector for RedisInspector {
    fn version(&mut self) -> Option<String> {
        let SourceAnswer::Rows(rows) = self.info() else { return None };
        let row = rows.first()?;
        Some(match text(row, "valkey_version") {
            "" => format!("Redis {}", text(row, "redis_version")),
            version => format!("Valkey {version}"),
        })
    }

    fn ping(&mut self) -> Result<(), UnknownReason> {
        self.client.ask(&[b"PING"]).map(drop).map_err(|error| self.lack(&error))
    }

    fn look(&mut self, _is_last: bool) -> BTreeMap<String, SourceAnswer> {
        let told = [("info", self.info()), ("settings", self.settings()), ("slow", self.slow())];
        told.into_iter().map(|(name, told)| (name.to_owned(), told)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::number;

    #[test]
    fn what_is_read_of_the_answer_is_kept_and_nothing_else() {
        let row = pairs(
            "# Memory\r\nused_memory:1048576\r\nexecutable:/home/someone/redis\r\nmaxmemory_policy:noeviction\r\n",
        );
        assert_eq!(number(&row, "used_memory"), Some(1_048_576.0));
        assert_eq!((row.len(), text(&row, "maxmemory_policy")), (2, "noeviction"));
    }
}
