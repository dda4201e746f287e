//! Checks the permissions of the login on the user's Redis or Valkey before anything is written, without changing anything.

use super::instance;
use crate::store::*;
use crate::stores::common::servers::{OURS, own_name};
use crate::wire::redis::{DeniedPermission, Login, RedisClient, RedisError};

/// The commands of every run, each on a key that does not exist. None changes anything: it finds nothing, or has one argument too
/// few, which the server checks after the permission.
const ALWAYS: &[&[&str]] = &[
    &["SET", KEY, "-", "XX"],
    &["MSET", KEY, "-", KEY],
    &["GET", KEY],
    &["GETRANGE", KEY, "0", "1"],
    &["MGET", KEY],
    &["EXISTS", KEY],
    &["DEL", KEY],
    &["SCAN", "0", "MATCH", KEY, "COUNT", "1"],
    &["HSET", KEY, "-", "-", "-"],
    &["HMGET", KEY, "-"],
    &["TYPE", KEY],
];
/// Placeholder for the key.
const KEY: &str = "KEY";

/// Commands that read facts: the command, the permission, and what is unknown without it.
const FACTS: &[(&[&str], &str, &str)] = &[
    (&["INFO", "server"], "+info", "the memory that is left, work in the background"),
    (&["CONFIG", "GET", "save"], "+config|get", "settings"),
    (&["MEMORY", "USAGE", KEY], "+memory|usage", "footprint"),
];

/// Refuses a user who lacks permissions that a run needs.
pub(super) fn check(admin: &mut RedisClient, login: &Login, durability: Durability) -> Result<()> {
    let key = own_name();
    let database = login.database.to_string();
    let mut needed: Vec<(&[&str], String)> =
        ALWAYS.iter().map(|words| (*words, format!("+{}", words[0].to_lowercase()))).collect();
    let select = ["SELECT", &database];
    if login.database > 0 {
        needed.push((&select, "+select".to_owned()));
    }
    if durability > Durability::None {
        needed.push((&["CONFIG", "GET", "appendfsync"], "+config|get".to_owned()));
    }
    let flush = instance::setting(admin, "appendfsync")?;
    if durability == Durability::OnSync && flush.is_none_or(|flush| flush != "always") {
        needed.push((&["WAITAOF", "0", "0", "1"], "+waitaof".to_owned()));
    }
    let (mut commands, mut lacks_keys, mut has_key) = (Vec::new(), false, false);
    for (words, right) in needed {
        let refused = refusal(admin, words, &key)?;
        ensure!(
            !ALWAYS.contains(&words) || !refused.as_ref().is_some_and(RedisError::is_unknown_command),
            "the server has no command {}, which every run needs, and nothing is put there: name one that keeps it under its own name \
             (without `rename-command`, and with no proxy between that does not pass it on)",
            words[0]
        );
        match refused.as_ref().and_then(RedisError::denied) {
            Some(DeniedPermission::Command) => commands.push(right),
            Some(DeniedPermission::Key) => lacks_keys = true,
            None => has_key |= words[1] == KEY,
        }
    }
    // A user without any key command was most likely given no key pattern either.
    let mut rights = if lacks_keys || !has_key { vec![format!("~{OURS}*")] } else { Vec::new() };
    rights.extend(commands);
    let user = if login.user.is_empty() { "default".to_owned() } else { login.user.clone() };
    let before = format!("ACL SETUSER {user} ");
    let grants = vec![Grant { before, rights, between: " ", after: String::new() }];
    MissingRights { user, by: "this command gives them", grants, between: "; " }.refuse()
}

/// The facts that this user may not read, with the permissions needed for them; empty if none.
pub(super) fn untold(admin: &mut RedisClient, name: &str) -> Result<String> {
    let mut untold = Vec::new();
    for (words, right, what) in FACTS {
        if refusal(admin, words, name)?.is_some_and(|refused| refused.denied().is_some()) {
            untold.push(format!("{what} ({right})"));
        }
    }
    Ok(untold.join("; "))
}

/// The server's refusal of a command; `None` if it runs.
fn refusal(admin: &mut RedisClient, words: &[&str], key: &str) -> Result<Option<RedisError>> {
    let words: Vec<&[u8]> =
        words.iter().map(|word| if *word == KEY { key.as_bytes() } else { word.as_bytes() }).collect();
    Ok(instance::unless_refused(admin.ask(&words))?.err())
}
