//! The application: PHP scripts, their settings, and the owner's requests to them.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::client::{WebClient, WebRequest};
use super::front::Front;
use crate::host::server::{password, secret_directory, write_secret};
use crate::store::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApplicationCache {
    /// Shared memory of the PHP processes.
    Apcu,
    /// A memcached server of the application.
    #[cfg(feature = "memcached")]
    Memcached,
}

/// All scripts, by the name in their URL.
const SCRIPTS: &[(&str, &str)] = &[
    ("cached.php", include_str!("../../../../../../web/cached.php")),
    ("common.php", include_str!("../../../../../../web/common.php")),
    ("facts.php", include_str!("../../../../../../web/facts.php")),
    ("handover.php", include_str!("../../../../../../web/handover.php")),
    ("keep.php", include_str!("../../../../../../web/keep.php")),
    ("mysql.php", include_str!("../../../../../../web/mysql.php")),
    ("postgres.php", include_str!("../../../../../../web/postgres.php")),
    ("readfile.php", include_str!("../../../../../../web/readfile.php")),
];

/// Scripts in a directory of their own.
pub(super) struct Scripts {
    pub(super) dir: PathBuf,
    /// Lines for `php.ini`.
    pub(super) php_settings: String,
    /// True if a cache must be told of puts and deletes.
    pub(super) caches: bool,
    token: String,
}

impl Scripts {
    /// Writes the scripts with settings for this store. `contact` is the server that the scripts use: a database or a cache.
    pub(super) fn write(
        setup: &Setup,
        front: Front,
        blobs: &Path,
        cache: Option<ApplicationCache>,
        contact: Option<Contact>,
    ) -> Result<Scripts> {
        let dir = secret_directory(&setup.dir.join("www"))?;
        for (name, text) in SCRIPTS {
            std::fs::write(dir.join(name), text)?;
        }
        let (source, php_settings) = match cache {
            None => (None, String::new()),
            Some(ApplicationCache::Apcu) => {
                (Some(include_str!("../../../../../../web/cache_apcu.php")), apcu_settings(setup))
            }
            #[cfg(feature = "memcached")]
            Some(ApplicationCache::Memcached) => {
                (Some(include_str!("../../../../../../web/cache_memcached.php")), String::new())
            }
        };
        if let Some(source) = source {
            std::fs::write(dir.join("cache.php"), source)?;
        }
        std::fs::write(dir.join("driver.php"), driver(setup.options))?;
        let token = password()?;
        let handover = if front == Front::Nginx { "X-Accel-Redirect" } else { "X-Sendfile" };
        let blobs = blobs.to_str().context("PHP's settings are text, and the path of the store is not")?;
        let mut settings = vec![("token", token.as_str()), ("blobs", blobs), ("handover", handover)];
        for name in ["connection", "protocol", "timed"] {
            settings.push((name, setup.options.text(name)));
        }
        if let Some(contact) = &contact {
            settings.extend([
                ("host", contact.host.as_str()),
                ("socket", contact.socket.as_str()),
                ("user", contact.user.as_str()),
                ("password", contact.password.as_str()),
                ("database", contact.database.as_str()),
                ("schema", contact.schema.as_str()),
            ]);
        }
        write_secret(&dir.join("settings.php"), &settings_text(&settings))?;
        Ok(Scripts { dir, php_settings, caches: cache.is_some(), token })
    }

    /// Puts a blob into the cache or removes it.
    pub(super) fn tell_cache(
        &self,
        client: &mut WebClient,
        prefix: &str,
        method: &'static str,
        key: &Key,
        body: Option<&[u8]>,
    ) -> Result<()> {
        let path = format!("{prefix}keep.php?key={}", key.as_str());
        let request = WebRequest { token: Some(&self.token), body, ..WebRequest::new(method, &path) };
        client.exchange(&request, &[204], &mut |_| {}).map(drop)
    }

    /// Versions and settings, as PHP reports them.
    pub(super) fn facts(&self, client: &mut WebClient, prefix: &str) -> Result<Facts> {
        let path = format!("{prefix}facts.php");
        let request = WebRequest { token: Some(&self.token), ..WebRequest::new("GET", &path) };
        let mut text = Vec::new();
        client.exchange(&request, &[200], &mut |piece| text.extend_from_slice(piece))?;
        let text = String::from_utf8_lossy(&text);
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// The PHP library for MySQL or MariaDB.
fn driver(options: &Options) -> &'static str {
    match options.text("driver") {
        "pdo" => include_str!("../../../../../../web/driver_pdo.php"),
        _ => include_str!("../../../../../../web/driver_mysqli.php"),
    }
}

/// Steps that scripts time: the name in the header `Server-Timing`, and the name of the step.
const PARTS: &[(&str, &str)] = &[("connect", "script connects"), ("fetch", "script fetches")];

/// Names of these steps, in order.
pub(super) fn step_names() -> Vec<String> {
    PARTS.iter().map(|(_, step)| (*step).to_owned()).collect()
}

/// Parses the steps, in nanoseconds, from a response header such as `connect;dur=0.0123, fetch;dur=1.5`, which has milliseconds.
pub(super) fn steps(header: &str) -> impl Iterator<Item = OpReport> {
    header.split(',').filter_map(|part| {
        let (name, milliseconds) = part.trim().split_once(";dur=")?;
        let (_, step) = PARTS.iter().find(|(known, _)| *known == name)?;
        Some(OpReport::Time(step, (milliseconds.parse::<f64>().ok()? * 1e6) as u64))
    })
}

/// Memory for every blob and its overhead, so that nothing is evicted.
fn apcu_settings(setup: &Setup) -> String {
    /// Upper bound of an entry's header, key and table slot.
    const ENTRY_BYTES: u64 = 512;
    let bytes = setup.store_bytes_max + setup.store_bytes_max / 4 + setup.keys_max * ENTRY_BYTES;
    let megabytes = bytes.div_ceil(1 << 20) + 32;
    format!(
        "apc.enabled = 1\napc.shm_size = {megabytes}M\napc.entries_hint = {}\napc.ttl = 0\n",
        setup.keys_max
    )
}

/// A PHP file that returns these settings.
fn settings_text(settings: &[(&str, &str)]) -> String {
    let mut text = "<?php\nreturn [\n".to_owned();
    for (name, value) in settings {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'");
        text += &format!("    '{name}' => '{value}',\n");
    }
    text + "];\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_text_whatever_is_in_them() {
        let text = settings_text(&[("a", r"it's \ odd")]);
        assert_eq!(text, "<?php\nreturn [\n    'a' => 'it\\'s \\\\ odd',\n];\n");
    }

    #[test]
    fn what_scripts_time_is_told_as_steps() {
        let told: Vec<OpReport> =
            steps("connect;dur=0.012345, fetch;dur=1.5, other;dur=9, fetch, fetch;dur=x").collect();
        assert_eq!(
            told,
            [OpReport::Time("script connects", 12_345), OpReport::Time("script fetches", 1_500_000)]
        );
        assert_eq!(steps("").count(), 0);
    }
}
