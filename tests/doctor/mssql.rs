//! What the doctor makes of SQL Server's answers, with a peer that speaks its protocol and says what is written here: no server of this
//! kind can be had. Columns and their names are those that each statement asks for, which is checked; that a server would answer so is
//! not shown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use blobwise::doctor::facts::SubjectKind;
use blobwise::doctor::finding::Answer as Verdict;
use blobwise::doctor::report::DoctorReport;
use serde_json::{Value, json};
use sqlparser::ast::{SelectItem, SetExpr, Statement};
use sqlparser::dialect::MsSqlDialect;
use sqlparser::parser::Parser;

use crate::peer::{Answer, Asked, Cell, PASSWORD, Peer, Refused, Table};
use crate::program::{BLOBWISE, Outcome, Work};
use crate::servers::{doctor, ends_between_looks, reported, watched_doctor};
use crate::trials::Trial;
use crate::{found, line, looks_well, report};

pub fn trials() -> Vec<Trial> {
    let faults = FAULTS
        .iter()
        .map(|(name, cases)| Trial::test(format!("mssql by a peer: found: {name}"), move || finds(*cases)));
    let others = [
        ("a column of blobs is found, with a run that can be made", blobs as fn() -> Outcome),
        ("a healthy server is left in peace, and only asked", healthy),
        ("facts that were saved are judged and compared again", saved),
        ("too few rights are told, and the rest goes on", few_rights),
        ("who may not come in is told so", closed),
        ("a server that dies in mid-sample is a line", dies),
        ("a server that dies within a look keeps what it said", dies_within),
    ];
    let others = others.into_iter().map(|(name, test)| Trial::test(format!("mssql by a peer: {name}"), test));
    faults.chain(others).collect()
}

/// What is planted, in servers of which each has one thing.
const FAULTS: &[(&str, Cases)] = &[
    ("a missing index", missing_index),
    ("scans of whole tables", table_scans),
    ("a duplicate index", duplicate_index),
    ("a disabled index", disabled_index),
    ("an index that nobody uses, by old counters only", unused_index),
    ("an index that is mostly empty", empty_index),
    ("statistics that are stale", stale_statistics),
    ("statistics that are switched off", statistics_off),
    ("a query that is asked all the time", frequent_query),
    ("a query that reads far more than it sends", pages_read),
    ("spills", spills),
    ("sessions that wait for another", locks),
    ("a transaction that was left open", idle_in_transaction),
    ("memory that is low", low_memory),
    ("processors with a line before them", processors),
    ("neighbours", neighbours),
    ("a pool that is too small, by old counters only", small_pool),
    ("a limit of memory that is too low", max_memory),
    ("queries that wait for memory", grants),
    ("connections that run out", connections),
    ("slow files", slow_files),
    ("a full volume", full_volume),
    ("broken pages", suspect_pages),
    ("settings that are not safe", unsafe_settings),
    ("databases that are suspect or in recovery", states),
];

// ---- the server ------------------------------------------------------------------------------------------------------

/// What each source says at the two looks.
type Told = BTreeMap<&'static str, [Value; 2]>;

const DAY: u64 = 86_400;

/// A source that says the same at both looks.
fn both(rows: Value) -> [Value; 2] {
    [rows.clone(), rows]
}

/// A server for which nothing is wrong: up for 30 days, asked ten times in a second, most of it from memory.
fn well() -> Told {
    let mut told = well_as_server();
    told.extend(well_as_database());
    told
}

fn well_as_server() -> Told {
    let counters = |lookups: u64, reads: u64| json!([{ "page_lookups": lookups, "page_reads": reads, "connections": 12, "grants_pending": 0, "deadlocks": 3 }]);
    let query = |calls: u64, us: u64, pages: u64, sent: u64| {
        json!([{
            "id": "0xAA", "calls": calls, "us": us, "page_reads": pages, "sent": sent,
            "query": "SELECT total FROM orders WHERE id = 4711471147114711"
        }])
    };
    let file = |reads: u64| json!([{ "id": "5:1", "name": "shop", "number": 1, "reads": reads, "read_ms": reads, "writes": 0, "write_ms": 0 }]);
    let server = json!([{
        "up_seconds": 30 * DAY, "target_kb": 12 << 20, "memory_kb": 16 << 20, "available_kb": 3 << 20, "is_low": 0,
        "used_kb": 12 << 20, "is_giving_up": 0
    }]);
    let session =
        json!([{ "id": "55", "status": "sleeping", "transactions": 0, "idle_seconds": 9, "blocked_by": 0 }]);
    let store = |interval: u32| {
        json!([{
            "state": 2, "state_name": "READ_WRITE", "capture_mode": "AUTO", "readonly_reason": 0, "newest_interval": interval,
            "kept_seconds": 30 * DAY
        }])
    };
    BTreeMap::from([
        ("version", both(json!([{ "version": "16.0.4135.4", "edition": "Developer Edition (64-bit)" }]))),
        ("ping", both(json!([{ "one": 1 }]))),
        ("server", both(server)),
        ("settings", both(json!([{ "max_memory_mb": 12_288, "max_connections": 32_767, "sees_others": 1 }]))),
        ("counters", [counters(1_000_000, 5000), counters(1_050_000, 5010)]),
        ("waits", [json!([{ "page_ms": 90_000 }]), json!([{ "page_ms": 90_001 }])]),
        ("schedulers", both(json!([{ "schedulers": 8, "runnable": 1 }]))),
        ("files", [file(1000), file(1200)]),
        // The cache of plans has forgotten some.
        ("queries", [query(900, 900_000, 3600, 900), query(910, 940_000, 3800, 910)]),
        ("store", [store(4711), store(4712)]),
        ("stored", [query(1000, 1_000_000, 4000, 1000), query(1010, 1_040_000, 4200, 1010)]),
        ("spills", both(json!([]))),
        ("sessions", both(session)),
        ("states", both(json!([]))),
        ("suspect", both(json!([]))),
    ])
}

fn well_as_database() -> Told {
    let index = |number: &str, name: &str, method: &str, keys: &str, unique: u8| {
        json!({
            "id": format!("99:{number}"), "of_table": "99", "number": number, "tab": "dbo.orders", "name": name, "method": method,
            "is_unique": unique, "is_disabled": 0, "is_hypothetical": 0, "filter": "", "key_columns": keys, "included": null,
            "bytes": 8_000_000, "foreign_key": 0, "made_seconds": 300 * DAY
        })
    };
    let indexes = json!([
        index("1", "PK_orders", "CLUSTERED", "1a", 1),
        index("2", "by_customer", "NONCLUSTERED", "2a,3d", 0)
    ]);
    let uses =
        |number: u8, uses: u64| json!({ "id": format!("99:{number}"), "of_table": "99", "uses": uses });
    let database = json!([{
        "name": "shop", "compatibility_level": 160, "is_read_only": 0, "is_auto_close_on": 0, "creates_statistics": 1,
        "updates_statistics": 1, "page_verify": "CHECKSUM", "delayed_durability": "DISABLED", "is_replicated": 0,
        "made_seconds": 400 * DAY, "bytes": 40_000_000_000_u64
    }]);
    let volume = json!([{ "name": "/var/opt/mssql/", "bytes": 500_000_000_000_u64, "free_bytes": 200_000_000_000_u64 }]);
    let statistics =
        json!([{ "tab": "dbo.orders", "name": "PK_orders", "table_rows": 500_000, "modified": 900 }]);
    BTreeMap::from([
        ("database", both(database)),
        ("tables", both(json!([{ "id": "99", "name": "dbo.orders", "table_rows": 500_000, "scans": 40 }]))),
        ("fetches", both(json!([]))),
        ("memory", both(json!([]))),
        ("missing", both(json!([]))),
        ("volumes", both(volume)),
        ("indexes", both(indexes)),
        ("uses", both(json!([uses(1, 90_000), uses(2, 4000)]))),
        ("restored", both(json!([{ "seconds": null }]))),
        ("statistics", both(statistics)),
        ("density", both(json!([{ "density": 82.5 }]))),
        ("columns", both(json!([]))),
        ("lengths", both(json!([]))),
    ])
}

/// The source that a statement is for, by the remark behind its first word.
fn source(sql: &str) -> Option<&str> {
    sql.split_once(' ')?.1.strip_prefix("/* blobwise doctor: ")?.split_once(" */").map(|(name, _)| name)
}

/// The names of what a statement selects, as a parser of its grammar reads it.
fn selected(sql: &str) -> Vec<String> {
    let parsed = Parser::parse_sql(&MsSqlDialect {}, sql).unwrap();
    let [Statement::Query(query)] = parsed.as_slice() else { panic!("more than a query: {sql}") };
    let SetExpr::Select(select) = query.body.as_ref() else { panic!("no SELECT: {sql}") };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
        item => panic!("`{item}` has no name: {sql}"),
    };
    select.projection.iter().map(name).collect()
}

/// Rows as the statement would have them: what a row does not say is NULL, and what the statement does not ask for is an error here.
fn answer(sql: &str, rows: &Value) -> Answer {
    let columns = selected(sql);
    let cell = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Cell::Null,
        Some(Value::Number(number)) => match number.as_i64() {
            Some(number) => Cell::Int(number),
            None => Cell::Float(number.as_f64().unwrap()),
        },
        Some(Value::String(text)) => Cell::Text(text.clone()),
        Some(other) => panic!("{other} is no cell"),
    };
    let rows = rows.as_array().unwrap().iter().map(|row| {
        let row = row.as_object().unwrap();
        for name in row.keys() {
            assert!(columns.contains(name), "`{name}` is not asked for: {sql}");
        }
        columns.iter().map(|name| cell(row.get(name))).collect()
    });
    let rows = rows.collect();
    Answer::Rows(Table { columns, rows })
}

/// A peer that says this, or for a source something else. A look ends where `server` is asked again.
fn serving(told: Told, instead: impl Fn(&str, usize) -> Option<Answer> + Send + Sync + 'static) -> Peer {
    let looks = AtomicUsize::new(0);
    Peer::with_door(
        |database| match database {
            "" | "shop" => None,
            // As a server does that insists on TLS.
            "encrypted" => Some(Refused::new(Refused::SILENT, 0, "")),
            _ => Some(Refused::new(
                4060,
                11,
                "Cannot open database \"ledger\" requested by the login. The login failed.",
            )),
        },
        move |asked| {
            let sql = asked.sql();
            let Some(name) = source(sql) else {
                assert!(sql.starts_with("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; "), "{sql}");
                return Answer::Done(0);
            };
            let look = match name {
                "server" => looks.fetch_add(1, Ordering::SeqCst),
                _ => looks.load(Ordering::SeqCst).saturating_sub(1),
            };
            instead(name, look).unwrap_or_else(|| answer(sql, &told[name][look.min(1)]))
        },
    )
}

fn peer(told: Told) -> Peer {
    serving(told, |_, _| None)
}

// ---- faults ----------------------------------------------------------------------------------------------------------

/// A server with one fault, the check that is asked of it, and what it says.
#[derive(Clone)]
struct Fault {
    told: Told,
    check: &'static str,
    answer: Verdict,
    named: &'static str,
}

type Cases = fn() -> Vec<Fault>;

/// Changes fields of a source's first row, at both looks or at the second only.
fn fault(
    check: &'static str,
    named: &'static str,
    source: &'static str,
    changes: Value,
    looks: &[usize],
) -> Fault {
    let mut told = well();
    let rows = told.get_mut(source).unwrap();
    for look in looks {
        let row = rows[*look][0].as_object_mut().unwrap();
        row.extend(changes.as_object().unwrap().clone());
    }
    Fault { told, check, answer: Verdict::Look, named }
}

/// Adds a row to a source at the second look.
fn row(check: &'static str, named: &'static str, source: &'static str, row: Value) -> Fault {
    let mut told = well();
    told.get_mut(source).unwrap()[1].as_array_mut().unwrap().push(row);
    Fault { told, check, answer: Verdict::Look, named }
}

impl Fault {
    fn bad(self) -> Fault {
        Fault { answer: Verdict::Bad, ..self }
    }

    /// The same where it cannot be told, for this reason.
    fn untold(mut self, source: &'static str, field: &str, value: Value, why: &'static str) -> Fault {
        for rows in self.told.get_mut(source).unwrap() {
            rows[0].as_object_mut().unwrap().insert(field.to_owned(), value.clone());
        }
        Fault { answer: Verdict::CannotTell, named: why, ..self }
    }
}

const BOTH: &[usize] = &[0, 1];
const LATER: &[usize] = &[1];

/// What the doctor says of each case of each trial. All are looked at in one run, so that they share its pause between the looks.
static SAID: LazyLock<Vec<(Fault, DoctorReport)>> = LazyLock::new(|| {
    let cases: Vec<Fault> = FAULTS.iter().flat_map(|(_, cases)| cases()).collect();
    let peers: Vec<Peer> = cases.iter().map(|case| peer(case.told.clone())).collect();
    let urls: Vec<String> = peers.iter().map(|peer| peer.url("/shop")).collect();
    let work = Work::new();
    let all = reported(&work, &urls.join(" "), "");
    // The machine stands first.
    assert_eq!(all.subjects.len(), cases.len() + 1);
    let of_each = all.subjects[1..]
        .iter()
        .map(|subject| DoctorReport { subjects: vec![subject.clone()], ..all.clone() });
    cases.into_iter().zip(of_each).collect()
});

/// Each fault is found, and little else is called bad or worth a look, as what has the same cause.
fn finds(cases: Cases) -> Outcome {
    let mine = cases();
    for case in &mine {
        let is_it = |other: &&(Fault, DoctorReport)| {
            (other.0.check, other.0.named, &other.0.told) == (case.check, case.named, &case.told)
        };
        let (_, said) = SAID.iter().find(is_it).ok_or("not looked at")?;
        found(said, case.check, case.answer, case.named);
        let others = said.lines().filter(|line| line.check != case.check && line.answer >= Verdict::Look);
        let others: Vec<_> = others.collect();
        assert!(others.len() <= 1, "{others:#?}");
    }
    assert!(!mine.is_empty());
    Ok(())
}

fn missing_index() -> Vec<Fault> {
    let wanted = |uses: u32, saved: f64, rows: u32| {
        json!({
            "id": "7", "name": "[shop].[dbo].[orders]", "equal": "[customer]", "unequal": null, "uses": uses, "saved": saved,
            "table_rows": rows
        })
    };
    let of = |named, wanted| row("ms-missing-index", named, "missing", wanted);
    let well = |fault: Fault| Fault { answer: Verdict::Ok, ..fault };
    vec![
        of("[shop].[dbo].[orders] on [customer]: 900 times, by 97 %", wanted(900, 97.0, 500_000)),
        well(of("the most is [shop].[dbo].[orders] on [customer]: 9 times", wanted(9, 97.0, 500_000))),
        well(of("none was wanted", wanted(900, 97.0, 900))),
    ]
}

fn table_scans() -> Vec<Fault> {
    vec![fault("ms-table-scans", "`dbo.orders`: 60 scans", "tables", json!({ "scans": 100 }), LATER)]
}

fn index(number: &str, keys: &str, more: Value) -> Value {
    let mut index = well()["indexes"][1][1].clone();
    let changes = json!({ "id": format!("99:{number}"), "number": number, "name": format!("extra{number}"), "key_columns": keys });
    for changes in [changes, more] {
        index.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    }
    index
}

fn duplicate_index() -> Vec<Fault> {
    let small = index("3", "2a", json!({ "bytes": 8192 }));
    vec![row("ms-duplicate-index", "`extra3` of `dbo.orders`, by `by_customer`", "indexes", small)]
}

fn disabled_index() -> Vec<Fault> {
    let off = json!({ "is_disabled": 1 });
    vec![
        row(
            "ms-disabled-index",
            "`extra3` of `dbo.orders` is disabled",
            "indexes",
            index("3", "7a", off.clone()),
        ),
        fault("ms-disabled-index", "`PK_orders` of `dbo.orders` is disabled", "indexes", off, LATER).bad(),
    ]
}

/// Right after a start, or a restore, none is called unused.
fn unused_index() -> Vec<Fault> {
    let idle = || row("ms-unused-index", "`extra3` of `dbo.orders`", "indexes", index("3", "7a", json!({})));
    vec![
        idle(),
        Fault { answer: Verdict::Ok, named: "none in a table that was used", ..idle_of_young_table() },
        idle().untold("server", "up_seconds", json!(3 * DAY), "forgets its counters with every start"),
        idle().untold("database", "made_seconds", json!(3 * DAY), "made or restored 3 days"),
        idle().untold("restored", "seconds", json!(3 * DAY), "made or restored 3 days"),
        idle().untold("database", "is_auto_close_on", json!(1), "AUTO_CLOSE is on"),
        idle().untold("database", "is_replicated", json!(1), "availability group"),
        idle().untold("database", "is_read_only", json!(1), "read-only"),
    ]
}

/// Its table was made three days ago.
fn idle_of_young_table() -> Fault {
    row("ms-unused-index", "", "indexes", index("3", "7a", json!({ "made_seconds": 3 * DAY })))
}

fn empty_index() -> Vec<Fault> {
    vec![fault("ms-index-density", "is 31 % full", "density", json!({ "density": 31.0 }), BOTH)]
}

fn stale_statistics() -> Vec<Fault> {
    // The square root of 1,000 times 500,000 rows is 22,361.
    let stale = json!({ "modified": 45_000 });
    vec![fault("ms-stale-statistics", "45k changed (2.0 times its rule)", "statistics", stale, BOTH)]
}

fn statistics_off() -> Vec<Fault> {
    let off = json!({ "updates_statistics": 0 });
    vec![fault("ms-statistics-off", "AUTO_UPDATE_STATISTICS is off", "database", off, BOTH)]
}

/// By Query Store where it counts, and else by the cache of plans, which says why.
fn frequent_query() -> Vec<Fault> {
    let often = |source, named| {
        let often = json!({ "calls": 9000, "us": 2_000_000, "sent": 9000 });
        fault("ms-frequent-query", named, source, often, LATER)
    };
    let with_store = |fault: Fault, changes: Value| {
        let mut told = fault.told;
        for look in told.get_mut("store").unwrap() {
            look[0].as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        }
        Fault { told, ..fault }
    };
    const BY_STORE: &str =
        "id = ?`; counted by Query Store (AUTO), whose intervals of 30 days outlive a restart";
    const IS_OFF: &str =
        "id = ?`; counted by sys.dm_exec_query_stats since the start 30 days ago, because Query Store is OFF";
    const IS_FULL: &str = "because Query Store is READ_ONLY: it is full";
    let full = json!({ "state": 1, "state_name": "READ_ONLY", "readonly_reason": 65_536 });
    vec![
        often("stored", BY_STORE),
        with_store(often("queries", IS_OFF), json!({ "state": 0, "state_name": "OFF" })),
        with_store(often("queries", IS_FULL), full),
        // What others ask of the server is not asked of this database.
        Fault {
            answer: Verdict::Ok,
            ..often(
                "queries",
                " of the time: `SELECT total FROM orders WHERE id = ?`; counted by Query Store",
            )
        },
    ]
}

fn pages_read() -> Vec<Fault> {
    vec![fault("ms-pages-read", "pages for each row", "stored", json!({ "page_reads": 900_000 }), LATER)]
}

fn spills() -> Vec<Fault> {
    let spilled = json!({ "id": "0xAA", "spilled": 900_000 });
    vec![row("ms-spills", "a second by `SELECT total FROM orders WHERE id = ?`", "spills", spilled)]
}

fn locks() -> Vec<Fault> {
    let waits = json!({ "blocked_by": 61, "status": "running" });
    vec![
        fault("ms-locks", "session 55 waits for 61", "sessions", waits, BOTH),
        fault("ms-locks", "2 deadlocks", "counters", json!({ "deadlocks": 5 }), LATER),
    ]
}

fn idle_in_transaction() -> Vec<Fault> {
    let idle = json!({ "transactions": 1, "idle_seconds": 600 });
    vec![fault("ms-idle-in-transaction", "session 55 for 10 min", "sessions", idle, BOTH)]
}

/// The same memory is right where nobody asks for it.
fn low_memory() -> Vec<Fault> {
    let of = |named, is_low: u8| {
        let changes = json!({ "available_kb": 200 << 10, "used_kb": 15 << 20, "is_low": is_low });
        fault("ms-memory", named, "server", changes, BOTH)
    };
    vec![of("and it is asked for", 1), Fault { answer: Verdict::Ok, ..of("are available", 0) }]
}

fn processors() -> Vec<Fault> {
    let line = || json!({ "runnable": 24 });
    let moment = fault("ms-processors", "24 for 8 processors, and 1", "schedulers", line(), LATER);
    vec![
        fault("ms-processors", "24 for 8 processors, and 24", "schedulers", line(), BOTH),
        Fault { answer: Verdict::Ok, ..moment },
    ]
}

fn neighbours() -> Vec<Fault> {
    let changes = json!({ "available_kb": 200 << 10, "used_kb": 6 << 20 });
    vec![fault("ms-neighbours", "are others'", "server", changes, BOTH)]
}

fn small_pool() -> Vec<Fault> {
    let waits =
        || fault("ms-buffer-pool", "of the time of queries", "waits", json!({ "page_ms": 90_030 }), LATER);
    vec![waits(), waits().untold("server", "up_seconds", json!(600), "forgets its counters with every start")]
}

fn max_memory() -> Vec<Fault> {
    let limit = json!({ "max_memory_mb": 1024 });
    vec![fault("ms-max-memory", "for a database of 40", "settings", limit, BOTH)]
}

fn grants() -> Vec<Fault> {
    let pending = json!({ "grants_pending": 4 });
    vec![fault("ms-memory-grants", "4, and 4 at the first look", "counters", pending, BOTH)]
}

fn connections() -> Vec<Fault> {
    vec![fault("ms-connections", "12 of 14", "settings", json!({ "max_connections": 14 }), BOTH)]
}

fn slow_files() -> Vec<Fault> {
    let slow = json!({ "read_ms": 9000 });
    vec![fault("ms-file-waits", "40 ms for a read of file 1 of `shop`", "files", slow, LATER)]
}

fn full_volume() -> Vec<Fault> {
    let free =
        |named, bytes: u64| fault("ms-volume-full", named, "volumes", json!({ "free_bytes": bytes }), BOTH);
    vec![
        free("`/var/opt/mssql/` is 94 % full", 30_000_000_000),
        free("`/var/opt/mssql/` is 100 % full", 1_000_000_000).bad(),
    ]
}

fn suspect_pages() -> Vec<Fault> {
    vec![row("ms-suspect-pages", "3 of `shop`", "suspect", json!({ "name": "shop", "broken": 3 })).bad()]
}

fn unsafe_settings() -> Vec<Fault> {
    let forced = json!({ "delayed_durability": "FORCED" });
    vec![
        fault("ms-safe", "DELAYED_DURABILITY is FORCED", "database", forced, BOTH),
        fault("ms-safe", "PAGE_VERIFY is NONE", "database", json!({ "page_verify": "NONE" }), BOTH).bad(),
    ]
}

fn states() -> Vec<Fault> {
    let of = |named, state: &str| {
        row("ms-database-states", named, "states", json!({ "name": "ledger", "state": state }))
    };
    vec![of("`ledger` is SUSPECT", "SUSPECT").bad(), of("`ledger` is RECOVERING", "RECOVERING")]
}

// ---- more than one fault ---------------------------------------------------------------------------------------------

fn blobs() -> Outcome {
    let mut told = well();
    told.get_mut("columns").unwrap()[1] = json!([{
        "table": "dbo.uploads", "column": "content", "sql_table": "[dbo].[uploads]", "sql_column": "[content]", "rows": 3_000_000,
        "table_bytes": 30_000_000_000_u64, "lob_bytes": 28_000_000_000_u64
    }]);
    let lengths: Vec<Value> = (1..=200).map(|number| json!({ "length": number * 100 })).collect();
    told.get_mut("lengths").unwrap()[1] = json!(lengths);
    let fetches =
        |pages: u64| json!([{ "name": "dbo.uploads", "fetched_pages": pages, "bytes": pages * 8000 }]);
    told.insert("fetches", [fetches(7000), fetches(17_000)]);
    told.get_mut("memory").unwrap()[1] = json!([
        { "name": "dbo.uploads", "bytes": 8_500_000_000_u64, "out_of_row_bytes": 8_000_000_000_u64 },
        { "name": "", "bytes": 1_500_000_000_u64, "out_of_row_bytes": 0 }
    ]);
    for look in told.get_mut("stored").unwrap() {
        look[0]["query"] = "SELECT content FROM uploads WHERE id = 4711471147114711".into();
    }
    let (work, peer) = (Work::new(), peer(told.clone()));
    let report = reported(&work, &peer.url("/shop"), "");
    found(&report, "ms-blob-columns", Verdict::Look, "`dbo.uploads.content`");
    found(&report, "ms-blob-columns", Verdict::Look, "28 GB of its table lie in pages of LOB_DATA");
    // 10,000 of the 50,000 pages that were asked for.
    found(
        &report,
        "ms-blob-columns",
        Verdict::Look,
        " of them were fetched in a second in 20 % of the pages",
    );
    let freed = "they have 80 % of what is in memory, where 8 GB would be free without them";
    found(&report, "ms-blob-columns", Verdict::Look, freed);
    let named =
        "100 % of the time of queries went into what names it, as `SELECT content FROM uploads WHERE id = ?`";
    found(&report, "ms-blob-columns", Verdict::Look, named);
    without_shares(told)?;
    let run = line(&report, "ms-blob-columns").try_this.clone().ok_or("no command")?;
    let corpus = run.split_once("files/hashed,sqlite,mssql/varbinary --corpus ").ok_or("no corpus")?.1;
    assert!(corpus.starts_with("quantiles:0.1="), "{run}");
    Work::new().say(&format!("corpus --corpus {corpus}")).ended(0);
    let asked =
        peer.asked().iter().map(|asked| asked.sql().to_owned()).find(|sql| sql.contains("DATALENGTH"));
    let asked = asked.ok_or("no lengths")?;
    assert!(
        asked
            .ends_with("DATALENGTH([content]) AS length FROM [dbo].[uploads] TABLESAMPLE SYSTEM (4000 ROWS)"),
        "{asked}"
    );
    Ok(())
}

/// What cannot be told of memory and traffic is said, and the rest is told.
fn without_shares(mut told: Told) -> Outcome {
    let mut large = told.clone();
    for look in large.get_mut("server").unwrap() {
        look[0]["used_kb"] = json!(256_u64 << 20);
    }
    told.get_mut("fetches").unwrap()[1][0]["fetched_pages"] = 5.into();
    let peers = [peer(large), peer(told.clone())];
    let mut in_rows = told;
    for look in in_rows.get_mut("columns").unwrap() {
        look.as_array_mut().unwrap().iter_mut().for_each(|column| column["lob_bytes"] = 0.into());
    }
    let in_rows = peer(in_rows);
    let work = Work::new();
    let urls: Vec<String> = peers.iter().chain([&in_rows]).map(|peer| peer.url("/shop")).collect();
    let report = reported(&work, &urls.join(" "), "");
    let words = [
        "their share of the memory is not told (it has 275 GB, and its view goes through all of it",
        "what was fetched of them was forgotten between the looks",
        "kB, their table has 85 % of what is in memory (8.5 GB)",
    ];
    for (subject, words) in report.subjects[1..].iter().zip(words) {
        let one = DoctorReport { subjects: vec![subject.clone()], ..report.clone() };
        found(&one, "ms-blob-columns", Verdict::Look, words);
    }
    assert!(!peers[0].asked().iter().any(|asked| asked.sql().contains("dm_os_buffer_descriptors")));
    Ok(())
}

fn healthy() -> Outcome {
    let (work, peer) = (Work::new(), peer(well()));
    let said = watched_doctor(&work, &peer.url("/shop"), "");
    let report = report(&work, &said);
    let subject = looks_well(&report, SubjectKind::MsSql);
    assert_eq!(subject.version.as_deref(), Some("SQL Server 16.0.4135.4, Developer Edition (64-bit)"));
    // All of it was told.
    let untold: Vec<_> = subject.lines.iter().filter(|line| line.answer == Verdict::CannotTell).collect();
    assert!(untold.is_empty(), "{untold:#?}");
    // What somebody asked for is in nothing that is kept.
    for file in ["saved/facts.json", "report.json", "page.html"] {
        if let Ok(text) = std::fs::read_to_string(work.path(file)) {
            assert!(!text.contains("4711471147114711") && !text.contains(PASSWORD), "{file}");
        }
    }
    // An interval that ended between the looks counts at both.
    let from = |asked: &&Asked| source(asked.sql()) == Some("stored") && asked.sql().contains("_id >= 4711 ");
    assert_eq!(peer.asked().iter().filter(from).count(), 2);
    for asked in peer.asked() {
        let Asked::Batch(sql) = asked else { return Err(format!("{asked:?}").into()) };
        let parsed = Parser::parse_sql(&MsSqlDialect {}, &sql)?;
        let is_fine = |statement: &Statement| matches!(statement, Statement::Query(_) | Statement::Set(_));
        assert!(parsed.iter().all(is_fine), "{sql}");
    }
    Ok(())
}

fn saved() -> Outcome {
    let (work, before) = (Work::new(), peer(well()));
    let url = before.url("/shop");
    let said = doctor(&work, &url, "--save old");
    let first = std::fs::read_to_string(work.path("report.json"))?;
    let again = work.say("doctor --from old --json again.json");
    assert_eq!((again.code, std::fs::read_to_string(work.path("again.json"))?), (said.code, first));
    // The same server with a fault: its facts stand where the old ones stood.
    let facts = std::fs::read_to_string(work.path("old/facts.json"))?;
    std::fs::create_dir(work.path("new"))?;
    std::fs::write(work.path("new/facts.json"), facts.replace("\"CHECKSUM\"", "\"NONE\""))?;
    let compared = work.say("doctor --from new --against old --html compared.html").ended(1);
    assert!(compared.stdout.contains("  ms-safe: ok, now bad\n"), "{}", compared.stdout);
    assert!(std::fs::read_to_string(work.path("compared.html"))?.contains("SQL Server 16.0.4135.4"));
    Ok(())
}

fn few_rights() -> Outcome {
    let denied = |name: &str| {
        Some(Answer::Refused(match name {
            "server" | "counters" | "waits" | "schedulers" | "queries" | "spills" => Refused::new(
                300,
                14,
                "VIEW SERVER PERFORMANCE STATE permission was denied on object 'server', database 'master'.",
            ),
            "files" | "volumes" => {
                Refused::new(297, 16, "The user does not have permission to perform this action.")
            }
            "density" | "store" => {
                Refused::new(262, 14, "VIEW DATABASE STATE permission denied in database 'shop'.")
            }
            "suspect" => Refused::new(
                229,
                14,
                "The SELECT permission was denied on the object 'suspect_pages', database 'msdb', schema 'dbo'.",
            ),
            _ => return None,
        }))
    };
    let mut told = well();
    for look in told.get_mut("settings").unwrap() {
        look[0]["sees_others"] = 0.into();
    }
    for look in told.get_mut("sessions").unwrap() {
        *look = json!([]);
    }
    let (work, peer) = (Work::new(), serving(told, move |name, _| denied(name)));
    let report = reported(&work, &peer.url("/shop"), "");
    for (check, why) in [
        (
            "ms-memory",
            "(error 300); VIEW SERVER STATE (from 2022 on VIEW SERVER PERFORMANCE STATE is enough) lets the login see this",
        ),
        ("ms-frequent-query", "VIEW SERVER STATE"),
        ("ms-file-waits", "permission to perform this action (error 297); VIEW SERVER STATE"),
        ("ms-index-density", "VIEW DATABASE STATE"),
        ("ms-suspect-pages", "SELECT on it lets the user see this"),
        ("ms-locks", "sessions of others are not shown; VIEW SERVER STATE"),
        ("ms-idle-in-transaction", "sessions of others are not shown"),
    ] {
        found(&report, check, Verdict::CannotTell, why);
    }
    for check in ["ms-safe", "ms-duplicate-index", "ms-stale-statistics", "ms-database-states"] {
        assert_eq!(line(&report, check).answer, Verdict::Ok, "{check}");
    }
    // Whether it is good hangs on what runs beside.
    assert_ne!(line(&report, "ms-answer-time").answer, Verdict::CannotTell);
    rights_in_the_database_only()
}

/// What Query Store counted wants no right on the server.
fn rights_in_the_database_only() -> Outcome {
    let refused = || {
        let words =
            "VIEW SERVER PERFORMANCE STATE permission was denied on object 'server', database 'master'.";
        Some(Answer::Refused(Refused::new(300, 14, words)))
    };
    let peer = serving(well(), move |name, _| if name == "queries" { refused() } else { None });
    let work = Work::new();
    let report = reported(&work, &peer.url("/shop"), "");
    found(&report, "ms-frequent-query", Verdict::Ok, "counted by Query Store");
    found(&report, "ms-spills", Verdict::CannotTell, "VIEW SERVER STATE");
    Ok(())
}

fn closed() -> Outcome {
    let peer_of_now = peer(well());
    let mut told = well();
    told.insert("version", [0, 1].map(|_| json!([{ "version": "11.0.7001.0", "edition": "Express" }])));
    let too_old = peer(told);
    let script = serving(well(), |name, _| {
        let paused = Refused::new(
            922,
            14,
            "Database 'master' is being recovered. Waiting until recovery is finished.",
        );
        (name == "version").then_some(Answer::Refused(paused))
    });
    let wrong = peer_of_now.url("/shop").replace(PASSWORD, "hidden-and-wrong");
    for (url, why) in [
        (wrong, "Login failed for user 'owner' (error 18456)"),
        (
            peer_of_now.url("/ledger"),
            "(error 4060); it is not there, is not open yet, as in recovery, or is closed to this user",
        ),
        (peer_of_now.url("/encrypted"), "as one does that insists on TLS, which is not spoken here"),
        (too_old.url("/shop"), "older than SQL Server 2014 (it says 11.0.7001.0)"),
        (script.url("/shop"), "is being recovered. Waiting until recovery is finished (error 922)"),
    ] {
        let work = Work::new();
        let said = doctor(&work, &url, "").ended(1);
        let text = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("cannot be asked: ") && text.contains(why), "{text}");
        assert!(text.contains("memory-available") && !text.contains("hidden"), "{text}");
    }
    Ok(())
}

fn dies() -> Outcome {
    let (work, mut peer) = (Work::new(), peer(well()));
    let mut command = work.command(BLOBWISE);
    command.args(["doctor", "--for", "3s"]).env("BLOBWISE_DOCTOR_URLS", peer.url("/shop"));
    ends_between_looks(&mut command, || peer.stop())
}

/// What was told before the end is judged; what was not is not made up, and rows that came half count for nothing.
fn dies_within() -> Outcome {
    let torn = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&torn);
    let peer = serving(well(), move |name, look| {
        (name == "statistics" && look == 1).then(|| {
            *counted.lock().unwrap() += 1;
            let columns = ["tab", "name", "table_rows", "modified"].map(str::to_owned).to_vec();
            let row = vec![
                Cell::Text("dbo.orders".into()),
                Cell::Text("x".into()),
                Cell::Int(5000),
                Cell::Int(90_000),
            ];
            Answer::Torn(Table { columns, rows: vec![row; 40] }, 100)
        })
    });
    let work = Work::new();
    let report = reported(&work, &peer.url("/shop"), "");
    assert_eq!(*torn.lock().unwrap(), 1);
    assert_eq!(line(&report, "ms-stale-statistics").answer, Verdict::CannotTell);
    assert_eq!(line(&report, "ms-answer-time").answer, Verdict::CannotTell);
    assert_eq!(line(&report, "ms-file-waits").answer, Verdict::Ok);
    Ok(())
}
