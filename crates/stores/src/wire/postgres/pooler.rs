//! Detection of connection poolers in front of a server, such as PgBouncer and Pgpool-II.

use super::{ConnectionParameters, PostgresClient, PostgresError, Result, StatementParameter, TEXT};

/// Connection settings that the server stores under another name, in another form, or not at all.
const NOT_KEPT: [&str; 3] = ["database", "options", "application_name"];

impl PostgresClient {
    /// Connects to the user's server, and refuses a pooler before anything is set in a session.
    pub fn connect_to_theirs(config: &ConnectionParameters) -> Result<PostgresClient> {
        /// `undefined_object`, which a setting is to a server that does not know it.
        const UNDEFINED: &str = "42704";
        let mut client = PostgresClient::connect(config).map_err(|trouble| match trouble {
            PostgresError::Server(said) if said.to_string().contains("unsupported startup parameter") => {
                PostgresError::Pooler(format!("PgBouncer says \"{said}\""))
            }
            PostgresError::Server(said)
                if said.code() == UNDEFINED && said.to_string().contains("idle_session_timeout") =>
            {
                PostgresError::TooOld(said.to_string())
            }
            trouble => trouble,
        })?;
        match client.shows_a_pooler(config)? {
            None => Ok(client),
            Some(sign) => Err(PostgresError::Pooler(sign)),
        }
    }

    /// The sign of a pooler, if there is one. Each query is a transaction of its own, for which a pooler may switch to another
    /// server session; none of them changes the session.
    fn shows_a_pooler(&mut self, config: &ConnectionParameters) -> Result<Option<String>> {
        const ASKED: u32 = 2;
        let number = |process: Option<i64>| process.map_or("none".to_owned(), |process| process.to_string());
        for _ in 0..ASKED {
            let answers = self.number("SELECT pg_backend_pid()", &[])?;
            // PgBouncer and Odyssey invent process ids, because their clients have no process of their own.
            if answers != self.greeted_by.map(i64::from) {
                return Ok(Some(format!(
                    "the server's process {} answers where {} greeted, as behind PgBouncer",
                    number(answers),
                    number(self.greeted_by.map(i64::from))
                )));
            }
        }
        let asked: Vec<(&str, &str)> =
            config.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let names: Vec<&[u8]> = asked.iter().map(|(name, _)| name.as_bytes()).collect();
        let kept = "SELECT name || '=' || setting FROM pg_settings WHERE name = ANY($1::text[])";
        let kept = self.texts(kept, &[StatementParameter::Array(TEXT, &names)])?;
        let lost = asked
            .iter()
            .find(|(name, value)| !NOT_KEPT.contains(name) && !kept.contains(&format!("{name}={value}")));
        if let Some((name, value)) = lost {
            return Ok(Some(format!("`{name}={value}` did not reach the server")));
        }
        if !self.is_forwarded()? {
            return Ok(None);
        }
        // Pgpool-II keeps one process per client and answers this query itself; a server behind a tunnel does not know the
        // setting.
        let mut version = String::new();
        let told = self.simple("SHOW pool_version", &mut |_, value| {
            version = String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
        });
        match told {
            Ok(_) => Ok(Some(format!("it is Pgpool-II {version}"))),
            Err(PostgresError::Server(_)) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// True if the connection is forwarded: the client port that the server sees is not ours.
    fn is_forwarded(&mut self) -> Result<bool> {
        let seen = self.number("SELECT coalesce(inet_client_port(), -1)", &[])?;
        Ok(match self.socket.port()? {
            Some(port) => seen != Some(i64::from(port)),
            None => seen.is_some_and(|port| port >= 0),
        })
    }
}
