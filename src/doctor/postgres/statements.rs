//! Queries: which are asked too often, and which write temporary files.

use crate::doctor::facts::{Facts, Kind, Lack, Row, growth, text};
use crate::doctor::finding::{Answer, Check, Finding, LeastAges, Question, when};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "pg-frequent-query",
        of: Kind::PostgreSql,
        question: Question::Queries,
        figure: "how often one query was asked in a second, and its share of the time of all",
        threshold: "look: 100 times or more, with 10 % of the time or more",
        reason: "What is asked a hundred times a second has mostly the same answer: a cache beside the application, or one query in place of many, \
                 takes it off the server. It may be what the server is for.",
        after: "ours",
        source: "calls and total_exec_time of pg_stat_statements; query texts have no values",
        rights: "the extension pg_stat_statements; pg_monitor, to see queries of others",
        shown_by: "SELECT calls, total_exec_time, query FROM pg_stat_statements ORDER BY calls DESC LIMIT 10",
        judge: frequent,
    },
    Check {
        id: "pg-temporary-files",
        of: Kind::PostgreSql,
        question: Question::Queries,
        figure: "bytes that queries wrote into temporary files in a second, between the looks",
        threshold: "look: 1 MB/s or more",
        reason: "A sort or a hash had more than work_mem, and went to disk. An index in that order, fewer columns or a larger work_mem for that one \
                 query helps. Making an index sorts on disk, too.",
        after: "ours",
        source: "temp_bytes of pg_stat_database; temp_blks_written of pg_stat_statements for the query",
        rights: "none; the extension pg_stat_statements, to name the query",
        shown_by: "SELECT temp_files, temp_bytes FROM pg_stat_database WHERE datname = current_database()",
        judge: temporary,
    },
];

/// A query in one line, without its end where it is long.
fn short(row: &Row) -> String {
    let words: Vec<&str> = text(row, "query").split_whitespace().collect();
    let query = words.join(" ");
    match query.char_indices().nth(100) {
        Some((end, _)) => format!("`{}...`", &query[..end]),
        None => format!("`{query}`"),
    }
}

fn frequent(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let pairs = facts.pairs("statements", "id")?;
    let all_ms: f64 = pairs.iter().map(|pair| growth(pair, "ms")).sum();
    let mut asked: Vec<(f64, f64, String)> = pairs
        .iter()
        .map(|pair| {
            let share = growth(pair, "ms") / all_ms.max(f64::MIN_POSITIVE);
            (growth(pair, "calls") / facts.seconds(), share, short(pair.1))
        })
        .filter(|(rate, ..)| *rate > 0.0)
        .collect();
    asked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((most, ..)) = asked.first().cloned() else {
        return Err("nobody asked anything between the looks".to_owned());
    };
    let words = |(rate, share, query): &(f64, f64, String)| {
        format!(
            "{} times a second, {} of the time: {query}",
            units::count(rate.round()),
            units::percent(*share)
        )
    };
    let often = asked.iter().filter(|(rate, share, _)| *rate >= 100.0 && *share >= 0.1);
    let named: Vec<String> = often.map(words).collect();
    let figure = named.first().cloned().unwrap_or_else(|| format!("the most is {}", words(&asked[0])));
    Ok(Finding::new(when(!named.is_empty(), Answer::Look), most, figure).naming(named))
}

fn temporary(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let rate = facts.growth("server", "temp_bytes")? / facts.seconds();
    let writers = facts.pairs("statements", "id").unwrap_or_default();
    let mut writers: Vec<(f64, String)> =
        writers.iter().map(|pair| (growth(pair, "temporary_blocks"), short(pair.1))).collect();
    writers.retain(|(blocks, _)| *blocks > 0.0);
    writers.sort_by(|a, b| b.0.total_cmp(&a.0));
    let by = writers.first().map(|(_, query)| format!(", most of it by {query}")).unwrap_or_default();
    let figure = format!("{} a second{by}", units::bytes(rate));
    let named = writers.into_iter().map(|(_, query)| query).collect();
    Ok(Finding::new(when(rate >= 1e6, Answer::Look), rate, figure).naming(named))
}
