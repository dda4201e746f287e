//! MongoDB by URL: only databases with our mark are used or removed, unusable URLs are refused without showing the password, and
//! so is a class or an option that the server cannot show.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use blobwise::conformance::bench::{Home, World};
use blobwise::conformance::subject::Subject;
use blobwise::store::{Common, Durability, Error, Mode, Options, Setup, Store};
use mongodb::bson::{Document, doc};

use crate::opening;
use crate::outside::{self, Peer};
use crate::subjects;
use crate::trials::Trial;

/// A check.
type Check = fn(&World, &Subject) -> Result<()>;

/// Trials, which need a server that is not a private one.
pub fn trials(world: &Arc<World>) -> Result<Vec<Trial>> {
    const CHECKS: &[(&str, Check)] = &[
        ("removes-only-what-is-ours", removes_only_what_is_ours),
        ("refuses-a-database-without-its-mark", refuses_a_database_without_its_mark),
        ("refuses-urls-that-lead-nowhere", refuses_urls_that_lead_nowhere),
        ("refuses-what-the-server-does-not-show", refuses_what_the_server_does_not_show),
    ];
    let subjects = subjects::all()?;
    let plain = |subject: &&Arc<Subject>| {
        subject.adapter.name == "gridfs" && subject.plain && subject.durability <= Durability::OnSync
    };
    let Some(subject) = subjects.iter().rfind(plain) else { return Ok(Vec::new()) };
    if !subject.is_outside {
        return Ok(Vec::new());
    }
    let trials = CHECKS.iter().map(|(name, check)| {
        let (world, subject) = (Arc::clone(world), Arc::clone(subject));
        Trial::ignorable_test(format!("{}/{name}", subject.name), move || {
            let _turn = outside::turn(subject.adapter);
            crate::complete_where_possible(&subject, || check(&world, &subject))
        })
    });
    Ok(trials.collect())
}

fn open(
    subject: &Subject,
    home: &Home,
    mode: Mode,
    options: &Options,
) -> blobwise::store::Result<Box<dyn Store>> {
    open_as(subject, home, mode, options, subject.durability)
}

fn open_as(
    subject: &Subject,
    home: &Home,
    mode: Mode,
    options: &Options,
    durability: Durability,
) -> blobwise::store::Result<Box<dyn Store>> {
    // The first requests to a stand-in in Java take seconds on a busy machine.
    open_within(subject, home, (mode, durability), options, Duration::from_secs(60))
}

fn open_within(
    subject: &Subject,
    home: &Home,
    (mode, durability): (Mode, Durability),
    options: &Options,
    op_timeout: Duration,
) -> blobwise::store::Result<Box<dyn Store>> {
    (subject.adapter.open)(&Setup {
        mode,
        durability,
        op_timeout,
        ..opening::small(&home.store, &Common::new(home.cache.clone()), options)
    })
}

/// Name of a store's database.
fn database_of(home: &Home) -> Result<String> {
    Ok(std::fs::read_to_string(home.store.join("database"))?)
}

/// Runs a function with a client of the server.
fn with_server<T>(
    options: &Options,
    act: impl AsyncFnOnce(&mongodb::Client) -> mongodb::error::Result<T>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let client = mongodb::Client::with_uri_str(options.text("url")).await?;
        Ok(act(&client).await?)
    })
}

fn databases(options: &Options) -> Result<Vec<String>> {
    with_server(options, async |client| client.list_database_names().await)
}

fn removes_only_what_is_ours(world: &World, subject: &Subject) -> Result<()> {
    let options = outside::options(subject)?;
    // One that only looks like ours, one of a dead run, and one of a run that goes on.
    let stranger = format!("blobwise_stranger{}", std::process::id());
    with_server(&options, async |client| {
        let collection = client.database(&stranger).collection::<Document>("precious");
        collection.insert_one(doc! { "of": "the user" }).await
    })?;
    let (dead, alive, own) = (world.home()?, world.home()?, world.home()?);
    open(subject, &dead, Mode::Create, &options)?.close()?;
    let dead_database = database_of(&dead)?;
    ensure!(databases(&options)?.contains(&dead_database), "the store has no database");
    drop(dead);
    open(subject, &alive, Mode::Create, &options)?.close()?;
    let store = open(subject, &own, Mode::Create, &options)?;
    let there = databases(&options)?;
    ensure!(!there.contains(&dead_database), "the database of a run that died is left");
    let own_database = database_of(&own)?;
    for kept in [&stranger, &database_of(&alive)?, &own_database] {
        ensure!(there.contains(kept), "`{kept}` was removed");
    }
    store.remove()?;
    let left = databases(&options)?;
    ensure!(!left.contains(&own_database), "our database is left after it was removed");
    for kept in [&stranger, &database_of(&alive)?] {
        ensure!(left.contains(kept), "`{kept}` was removed with ours");
    }
    with_server(&options, async |client| client.database(&stranger).drop().await)?;
    open(subject, &alive, Mode::Open, &options)?.remove()?;
    Ok(())
}

fn refuses_a_database_without_its_mark(world: &World, subject: &Subject) -> Result<()> {
    let options = outside::options(subject)?;
    let home = world.home()?;
    open(subject, &home, Mode::Create, &options)?.close()?;
    let database = database_of(&home)?;
    with_server(&options, async |client| {
        client.database(&database).collection::<Document>("made_by_blobwise").drop().await
    })?;
    let said = refusal(open(subject, &home, Mode::Open, &options))?;
    ensure!(said.contains("does not carry our mark"), "{said}");
    with_server(&options, async |client| client.database(&database).drop().await)
}

fn refuses_urls_that_lead_nowhere(world: &World, subject: &Subject) -> Result<()> {
    // Only root could bind this port, and the kernel never assigns it.
    let closed = 1;
    let urls = [
        ("mongodb+srv://me:secret@example.org/".to_owned(), "DNS"),
        ("mongodb://me:secret@:x/".to_owned(), "is not a URL of MongoDB"),
        (format!("mongodb://127.0.0.1:{closed}/"), "Connection refused"),
    ];
    for (url, why) in urls {
        let home = world.home()?;
        let mut values = subject.options.shown();
        values.insert("url".to_owned(), url.clone());
        // Who does not answer is waited for to the end.
        let (new, options, little) =
            ((Mode::Create, subject.durability), Options::new(values), Duration::from_secs(5));
        let outcome = open_within(subject, &home, new, &options, little);
        let said = refusal(outcome).with_context(|| url.clone())?;
        ensure!(said.contains(why), "`{url}`: {said}");
        ensure!(!said.contains("secret"), "the password is shown: {said}");
    }
    Ok(())
}

/// The stand-in as it is, or a user's own server that reports no more than it: each class that promises something, and each
/// compression other than the default, is refused with the reason, and nothing is left of the attempt.
fn refuses_what_the_server_does_not_show(world: &World, subject: &Subject) -> Result<()> {
    let shows_nothing = subject.durability == Durability::None;
    let peer = if shows_nothing { None } else { Some(Peer::start(&[])?) };
    let with = |compression: &str| -> Result<Options> {
        let mut values = outside::options(subject)?.shown();
        values.extend(peer.iter().map(|peer| ("url".to_owned(), peer.url.clone())));
        values.insert("compression".to_owned(), compression.to_owned());
        Ok(Options::new(values))
    };
    let plain = with("snappy")?;
    let before = databases(&plain)?;
    for class in [Durability::OnSync, Durability::EachWrite] {
        let said = refusal(open_as(subject, &world.home()?, Mode::Create, &plain, class))?;
        ensure!(
            said.contains("it says that it is MongoDB") || said.contains("a program that says"),
            "{said}"
        );
        ensure!(said.contains(&format!("class {} {}", class.name(), outside::WAY_OUT)), "{said}");
    }
    let zlib = with("zlib")?;
    let said = refusal(open_as(subject, &world.home()?, Mode::Create, &zlib, Durability::None))?;
    ensure!(said.contains("compression=zlib cannot be read back"), "{said}");
    let left: Vec<String> = databases(&plain)?.into_iter().filter(|name| !before.contains(name)).collect();
    ensure!(left.is_empty(), "a refused store left its database: {left:?}");
    let store = open_as(subject, &world.home()?, Mode::Create, &plain, Durability::None)?;
    let facts = store.facts()?;
    ensure!(facts.contains_key("says_that_it_is"), "{facts:?}");
    ensure!(!facts["version"].starts_with("MongoDB"), "{facts:?}");
    Ok(store.remove()?)
}

fn refusal(outcome: blobwise::store::Result<Box<dyn Store>>) -> Result<String> {
    match outcome {
        Ok(_) => bail!("it was opened"),
        Err(Error::Failed(error)) => Ok(format!("{error:#}")),
        Err(error) => bail!("it was not refused, but {error}"),
    }
}
