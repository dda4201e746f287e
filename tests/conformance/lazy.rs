//! Leftovers of deletes, marked or dead rows: counted through a separate connection.

use std::path::Path;
#[cfg(feature = "postgres")]
use std::process::Command;

use anyhow::{Context, Result, ensure};
use blobwise::conformance::bench::{Bench, blob};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "mongodb"))]
use blobwise::conformance::processes;
use blobwise::conformance::subject::Subject;

#[cfg(feature = "mongodb")]
use crate::outside;

/// A marked blob is gone for readers. Its row goes with the purge and not before; a blob that was put again stays.
pub fn purges(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(12);
    let count = |bench: &Bench| rows(&bench.subject, &bench.home.store);
    bench.store()?.purge().context("purge")?;
    let before = count(bench)?;
    let mut hand = bench.hand()?;
    for key in &keys {
        hand.put(key, &blob(key.id, 0, 3000))?;
    }
    keys[..8].iter().try_for_each(|key| hand.delete(key))?;
    let again = blob(keys[0].id, 1, 200);
    hand.put(&keys[0], &again)?;
    // In GridFS a blob that is put again is another file.
    ensure!(count(bench)? >= before + 12, "a lazy delete removed its row at once");
    bench.store()?.purge().context("purge")?;
    let left = count(bench)?;
    ensure!(left == before + 5, "{} rows are left after the purge instead of 5", left - before);
    hand.expect(&keys[0], Some(&again)).context("put again before the purge")?;
    keys[1..8].iter().try_for_each(|key| hand.expect(key, None))?;
    keys[8..].iter().try_for_each(|key| hand.expect(key, Some(&blob(key.id, 0, 3000))))
}

/// After settling, nothing is left that PostgreSQL's autovacuum would pick up at its next look: no table has more dead rows than
/// 50 plus a fifth of its rows, including those of TOAST values and large objects. After catching up, none has any.
pub fn leaves_nothing_to_vacuum(bench: &mut Bench) -> Result<()> {
    const DEAD: &str =
        "SELECT string_agg(format('%s: %s dead, %s rows', s.relname, n_dead_tup, reltuples), ', ')
        FROM pg_stat_all_tables s JOIN pg_class c ON c.oid = s.relid
        WHERE (schemaname = 'store' OR s.relname = 'pg_largeobject'
                OR c.oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace = 'store'::regnamespace))
            AND n_dead_tup > ";
    let dead_beyond = |bench: &Bench, limit: &str| {
        ask_postgres(&bench.subject, &bench.home.store, &format!("{DEAD}{limit}"))
    };
    let keys = bench.keys(200);
    let mut hand = bench.hand()?;
    for (generation, key) in keys.iter().chain(&keys).enumerate() {
        hand.put(key, &blob(key.id, generation as u64, 5000))?;
    }
    keys[..150].iter().try_for_each(|key| hand.delete(key))?;
    // The statistics of a session may be reported only when it ends.
    drop(hand);
    bench.store()?.settle().context("settle")?;
    let due = dead_beyond(bench, "50 + 0.2 * greatest(reltuples, 0)")?;
    ensure!(due.is_empty(), "due for a vacuum after settling: {due}");
    let mut hand = bench.hand()?;
    // So few that a plain vacuum may skip the index, as it does if dead rows are on less than 2 % of the pages.
    keys[150..162].iter().try_for_each(|key| hand.delete(key))?;
    drop(hand);
    bench.store()?.catch_up().context("catch up")?;
    let left = dead_beyond(bench, "0")?;
    ensure!(left.is_empty(), "left to a vacuum after catching up: {left}");
    let mut hand = bench.hand()?;
    keys[..162].iter().try_for_each(|key| hand.expect(key, None))?;
    for (place, key) in keys.iter().enumerate().skip(162) {
        hand.expect(key, Some(&blob(key.id, (200 + place) as u64, 5000)))?;
    }
    Ok(())
}

/// Rows of the table of blobs, including marked ones.
fn rows(subject: &Subject, dir: &Path) -> Result<i64> {
    match subject.family() {
        "postgres" => Ok(ask_postgres(subject, dir, "SELECT count(*) FROM store.blobs")?.parse()?),
        "mongodb" => documents_in_mongodb(subject, dir),
        _ => rows_in_mysql(dir),
    }
}

/// Value after `name` in the command line of the server that works in a directory.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "mongodb"))]
fn argument(dir: &Path, name: &str) -> Result<String> {
    let servers = processes::using(dir);
    let found = servers
        .iter()
        .filter(|process| !process.is_supervisor())
        .find_map(|process| process.command.split(' ').find_map(|argument| argument.strip_prefix(name)));
    found.map(str::to_owned).with_context(|| format!("no server with `{name}` was found"))
}

#[cfg(feature = "postgres")]
fn ask_postgres(subject: &Subject, dir: &Path, query: &str) -> Result<String> {
    let sockets = argument(dir, "unix_socket_directories=")?;
    // PostgreSQL's own client, so that the result does not depend on ours.
    let psql = subject.adapter.programs[0].find()?.path.canonicalize()?.with_file_name("psql");
    let ask = ["-X", "-U", "blobwise", "-d", "postgres", "-h", &sockets, "-Atc", query];
    let output = Command::new(psql).args(ask).output()?;
    ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(feature = "mysql")]
fn rows_in_mysql(dir: &Path) -> Result<i64> {
    use mysql::prelude::Queryable;
    let socket = argument(dir, "--socket=")?;
    let opts = mysql::OptsBuilder::new().socket(Some(socket)).user(Some("root"));
    let mut connection = mysql::Conn::new(opts)?;
    connection.query_first("SELECT COUNT(*) FROM store.blobs")?.context("no answer")
}

#[cfg(feature = "mongodb")]
fn documents_in_mongodb(subject: &Subject, dir: &Path) -> Result<i64> {
    let (url, database) = if outside::is_outside(subject.adapter) {
        let url = outside::options(subject)?.text("url").to_owned();
        (url, std::fs::read_to_string(dir.join("database"))?)
    } else {
        let socket = format!("{}/mongodb-27017.sock", argument(dir, "--unixSocketPrefix=")?);
        (format!("mongodb://{}", socket.replace('/', "%2F")), "store".to_owned())
    };
    let collection = if subject.adapter.name == "gridfs" { "fs.files" } else { "blobs" };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let client = mongodb::Client::with_uri_str(url).await?;
        let documents = client.database(&database).collection::<mongodb::bson::Document>(collection);
        Ok(documents.count_documents(mongodb::bson::doc! {}).await? as i64)
    })
}

#[cfg(not(feature = "mongodb"))]
fn documents_in_mongodb(_: &Subject, _: &Path) -> Result<i64> {
    anyhow::bail!("built without MongoDB")
}

#[cfg(not(feature = "postgres"))]
fn ask_postgres(_: &Subject, _: &Path, _: &str) -> Result<String> {
    anyhow::bail!("built without PostgreSQL")
}

#[cfg(not(feature = "mysql"))]
fn rows_in_mysql(_: &Path) -> Result<i64> {
    anyhow::bail!("built without MySQL")
}
