//! SQL Server's adapter with a peer that speaks its protocol and fails as a server may: the errors, what may be retried, and that
//! no partial answer is taken for a whole one. It does not show that a server would understand the adapter.

use std::time::Duration;

use anyhow::{Result, ensure};
use blobwise::store::{Adapter, Common, Error, Key, Setup, Span, Store};
use blobwise::stores::{self, Entry};

use crate::opening;
use crate::peer::{Answer, Asked, Cell, PASSWORD, Peer, Refused, Table};
use crate::trials::Trial;

type Check = fn(&'static Adapter) -> Result<()>;

pub fn trials() -> Vec<Trial> {
    const CHECKS: &[(&str, Check)] = &[
        ("goes-through-its-ops", goes_through_its_ops),
        ("tells-deadlocks-from-failures", tells_deadlocks_from_failures),
        ("refuses-who-may-not-come-in", refuses_who_may_not_come_in),
        ("asks-for-attention-when-its-time-is-over", asks_for_attention),
        ("takes-nothing-half-for-whole", takes_nothing_half_for_whole),
        ("leaves-a-server-that-is-too-old", leaves_a_server_that_is_too_old),
        ("makes-all-of-a-store-or-nothing", makes_all_of_a_store_or_nothing),
    ];
    let Some(Entry::Ready(adapter)) = stores::find("mssql/varbinary") else { return Vec::new() };
    let trial = |(name, check): &(&str, Check)| {
        let check = *check;
        Trial::test(format!("mssql/varbinary/by-a-peer/{name}"), move || Ok(check(adapter)?))
    };
    CHECKS.iter().map(trial).collect()
}

fn table(columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    Table { columns: columns.iter().map(|name| (*name).to_owned()).collect(), rows }
}

fn text(value: &str) -> Answer {
    Answer::Rows(table(&[""], vec![vec![Cell::Text(value.to_owned())]]))
}

/// Answers of a server while a store is created; all other requests are up to the test.
fn opening(asked: &Asked) -> Option<Answer> {
    let sql = asked.sql();
    let begins = |word: &str| sql.starts_with(word);
    Some(match sql {
        _ if sql.contains("'ProductVersion'") => text("16.0.4135.4"),
        _ if sql.contains("delayed_durability_desc") => text("ALLOWED"),
        _ if sql.contains("FROM sys.schemas") => Answer::Rows(table(&["name"], Vec::new())),
        "BEGIN TRANSACTION" | "COMMIT TRANSACTION" => Answer::Done(0),
        _ if begins("SET ") || begins("CREATE ") || sql.contains("made_by_blobwise") => Answer::Done(0),
        _ => return None,
    })
}

fn peer(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Peer {
    Peer::new(move |asked| opening(asked).unwrap_or_else(|| script(asked)))
}

/// Opens a store in the peer with a timeout for an op that no busy machine needs.
fn open(
    adapter: &'static Adapter,
    url: &str,
    dir: &std::path::Path,
) -> blobwise::store::Result<Box<dyn Store>> {
    open_within(adapter, url, dir, Duration::from_secs(60))
}

fn open_within(
    adapter: &'static Adapter,
    url: &str,
    dir: &std::path::Path,
    op_timeout: Duration,
) -> blobwise::store::Result<Box<dyn Store>> {
    let (common, options) = (Common::new(dir.to_owned()), opening::options_at(adapter, url));
    (adapter.open)(&Setup { op_timeout, ..opening::small(dir, &common, &options) })
}

fn place() -> Result<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

fn blob() -> Vec<u8> {
    // Several packets and pieces.
    (0..20_000_u32).map(|byte| (byte * 7) as u8).collect()
}

fn blobs(blob: Vec<u8>) -> Table {
    table(&["content"], vec![vec![Cell::Bytes(blob)]])
}

fn goes_through_its_ops(adapter: &'static Adapter) -> Result<()> {
    let peer = peer(|asked| match asked.sql() {
        sql if sql.starts_with("SELECT content") => Answer::Rows(blobs(blob())),
        _ => Answer::Done(1),
    });
    let dir = place()?;
    let store = open(adapter, &peer.url("/files"), dir.path())?;
    let mut session = store.session()?;
    let key = Key::of_digest(3, 0xabc);
    session.put(&key, &blob())?;
    let mut got = Vec::new();
    ensure!(session.get(&key, Span::Whole, &mut |bytes| got.extend_from_slice(bytes))?);
    ensure!(got == blob(), "{} bytes", got.len());
    session.sync()?;
    session.delete(&key)?;
    let asked = peer.asked();
    let params = |word: &str| {
        asked.iter().find_map(|asked| match asked {
            Asked::Call(sql, params) if sql.contains(word) => Some(params.clone()),
            _ => None,
        })
    };
    let digest = Cell::Text(key.as_str().to_owned());
    ensure!(params("UPDATE ") == Some(vec![digest.clone(), Cell::Bytes(blob())]), "another put");
    ensure!(params("DELETE ") == Some(vec![digest]), "another delete");
    ensure!(asked.iter().any(|asked| asked.sql() == "EXEC sys.sp_flush_log"), "no sync");
    Ok(())
}

fn tells_deadlocks_from_failures(adapter: &'static Adapter) -> Result<()> {
    for (number, is_busy) in [(1205, true), (1222, true), (2601, true), (2627, true), (9002, false)] {
        let refused = Refused::new(number, 13, "Transaction (Process ID 52) was chosen as the victim.");
        let peer = peer(move |_| Answer::Refused(refused.clone()));
        let dir = place()?;
        let store = open(adapter, &peer.url(""), dir.path())?;
        match store.session()?.put(&Key::of_digest(1, 1), b"x") {
            Err(Error::Busy) if is_busy => {}
            Err(Error::Failed(error)) if !is_busy => {
                let said = format!("{error:#}");
                ensure!(said.contains("9002") && said.contains("the victim"), "{said}");
            }
            other => anyhow::bail!("{number}: {other:?}"),
        }
    }
    Ok(())
}

fn refuses_who_may_not_come_in(adapter: &'static Adapter) -> Result<()> {
    let peer = Peer::with_door(
        |database| {
            (database == "closed")
                .then(|| Refused::new(4060, 11, "Cannot open database \"closed\" requested by the login."))
        },
        |_| Answer::Done(0),
    );
    let dir = place()?;
    let wrong = peer.url("").replace(PASSWORD, "hidden-and-wrong");
    for (url, number) in [(wrong, "18456"), (peer.url("/closed"), "4060")] {
        let Err(Error::Failed(error)) = open(adapter, &url, dir.path()).map(drop) else {
            anyhow::bail!("{number}: it came in")
        };
        let said = format!("{error:#}");
        ensure!(said.contains(number) && !said.contains("hidden"), "{said}");
    }
    Ok(())
}

/// After a timeout the server is told to cancel, and its late answer is not taken for that of the next request.
fn asks_for_attention(adapter: &'static Adapter) -> Result<()> {
    let peer = peer(|asked| match asked.sql() {
        sql if sql.starts_with("SELECT content") => Answer::Endless(blobs(blob())),
        sql if sql.starts_with("SELECT SUBSTRING") => Answer::Rows(blobs(b"another".to_vec())),
        _ => Answer::Done(1),
    });
    let dir = place()?;
    // Which is waited for.
    let store = open_within(adapter, &peer.url(""), dir.path(), Duration::from_secs(5))?;
    let (mut session, key) = (store.session()?, Key::of_digest(1, 1));
    let late = session.get(&key, Span::Whole, &mut |_| {});
    ensure!(matches!(late, Err(Error::TimedOut)), "{late:?}");
    ensure!(peer.asked().last() == Some(&Asked::Attention), "{:?}", peer.asked().last());
    let mut got = Vec::new();
    session.get(&key, Span::Part { offset: 0, len: 7 }, &mut |bytes| got.extend_from_slice(bytes))?;
    ensure!(got == b"another", "{} bytes", got.len());
    Ok(())
}

fn takes_nothing_half_for_whole(adapter: &'static Adapter) -> Result<()> {
    let refused = || Refused::new(824, 24, "SQL Server detected a logical consistency-based I/O error.");
    let answers: [fn(Refused) -> Answer; 4] = [
        // In the middle of a value, before the end of the answer, and an error after whole rows and after none.
        |_| Answer::Torn(blobs(blob()), 10_000),
        |_| Answer::Torn(blobs(blob()), 5),
        |refused| Answer::Partly(blobs(blob()), refused),
        |refused| Answer::Partly(table(&["content"], Vec::new()), refused),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let peer = peer(move |asked| match asked.sql() {
            sql if sql.starts_with("SELECT content") => answer(refused()),
            _ => Answer::Done(1),
        });
        let dir = place()?;
        let store = open(adapter, &peer.url(""), dir.path())?;
        let (mut session, key) = (store.session()?, Key::of_digest(1, 1));
        let read = session.get(&key, Span::Whole, &mut |_| {});
        let Err(Error::Failed(error)) = read else { anyhow::bail!("answer {number}: {read:?}") };
        let said = format!("{error:#}");
        ensure!(number < 2 || said.contains("824"), "answer {number}: {said}");
        // The worker goes on with another connection.
        session.connect()?;
        session.put(&key, b"x")?;
    }
    Ok(())
}

fn leaves_a_server_that_is_too_old(adapter: &'static Adapter) -> Result<()> {
    let peer = Peer::new(|asked| match asked.sql() {
        sql if sql.contains("'ProductVersion'") => text("11.0.7001.0"),
        _ => Answer::Done(0),
    });
    let dir = place()?;
    let Err(Error::Failed(error)) = open(adapter, &peer.url(""), dir.path()).map(drop) else {
        anyhow::bail!("it was used")
    };
    let said = format!("{error:#}");
    ensure!(said.contains("older than SQL Server 2014 (it says 11.0.7001.0)"), "{said}");
    ensure!(!peer.asked().iter().any(|asked| asked.sql().starts_with("CREATE ")), "something was made");
    Ok(())
}

/// For a user who may create schemas and no tables: a refusal between the schema and its last table rolls back both.
fn makes_all_of_a_store_or_nothing(adapter: &'static Adapter) -> Result<()> {
    for refused in ["CREATE SCHEMA", ".made_by_blobwise(machine nvarchar", "INSERT INTO", ".blobs("] {
        let peer = Peer::new(move |asked| match opening(asked) {
            Some(Answer::Done(_)) if asked.sql().contains(refused) => {
                Answer::Refused(Refused::new(262, 14, "CREATE TABLE permission denied in database 'files'."))
            }
            answer => answer.unwrap_or(Answer::Done(0)),
        });
        let dir = place()?;
        let Err(Error::Failed(error)) = open(adapter, &peer.url("/files"), dir.path()).map(drop) else {
            anyhow::bail!("{refused}: it was used")
        };
        ensure!(format!("{error:#}").contains("permission denied"), "{error:#}");
        let asked: Vec<String> = peer.asked().iter().map(|asked| asked.sql().to_owned()).collect();
        let place = |words: &str| asked.iter().position(|sql| sql.starts_with(words));
        ensure!(place("BEGIN TRANSACTION") < place("CREATE SCHEMA"), "{asked:?}");
        ensure!(place("COMMIT").is_none(), "{asked:?}");
        ensure!(asked.last().is_some_and(|sql| sql.contains("ROLLBACK TRANSACTION")), "{asked:?}");
    }
    Ok(())
}
