//! The checks of the contract: one function each, listed with the subjects that they apply to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::bench::{Bench, Hand, Home, blob};
use super::check::{Case, CheckKind, ConformanceCheck, open, own, refused};
use super::subject::Subject;
use super::{backups, catalogues, compactions, pages, processes, transactions};
use crate::host::machine;
use crate::store::{Durability, Error, Facts, Key, Loss, PIECE_BYTES_MAX, Span};

/// Checks that do not apply for the same reason.
pub struct Group {
    /// Reason that is given for a check that applies to none of a store's classes.
    pub why_not: &'static str,
    /// The checks.
    pub checks: &'static [ConformanceCheck],
}

/// All checks that need no more than the contract. Each flag of [`crate::store::Capabilities`] has two: one for stores that declare
/// it, and one for those that do not.
pub const GROUPS: &[Group] = &[
    Group { why_not: "the store does not declare what they check", checks: ABILITIES },
    Group { why_not: "the store declares what they expect it to refuse", checks: REFUSALS },
    // What a server writes on its own, such as statistics, is not deferred work.
    Group { why_not: "they are for stores without a server", checks: SETTLING },
];

/// All checks of all groups.
pub fn all() -> impl Iterator<Item = &'static ConformanceCheck> {
    GROUPS.iter().flat_map(|group| group.checks)
}

/// True if a check is that an op is refused. Whether it is depends on what the store declares, and not on the data.
pub fn is_refusal(check: &ConformanceCheck) -> bool {
    REFUSALS.iter().any(|refusal| refusal.name == check.name)
}

/// Checks of what every store must do, and of what a store declares.
const ABILITIES: &[ConformanceCheck] = &[
    open("returns-what-was-put", always, returns_what_was_put),
    open("replaces", changes, replaces),
    open("deletes-twice", changes, deletes_twice),
    open("exact-ranges", |subject| subject.caps().range, exact_ranges),
    open("sessions-agree", |subject| subject.caps().many, sessions_agree),
    open("is-joined", |subject| subject.invites() == Some(true), is_joined),
    open(
        "no-torn-blobs",
        |subject| {
            let caps = subject.caps();
            caps.atomic_put && caps.many && caps.contents && caps.changes
        },
        no_torn_blobs,
    ),
    open("agrees-with-a-map", always, agrees_with_a_map),
    open("reads-in-pieces", |subject| subject.caps().streams && subject.caps().contents, reads_in_pieces),
    open("lists", |subject| subject.caps().list, lists),
    open("counts-all", |subject| subject.caps().totals, counts_all),
    open("batches", |subject| subject.caps().batch, batches),
    open("gets-several", |subject| subject.caps().get_many, gets_several),
    open(
        "reads-in-one-transaction",
        |subject| subject.caps().one_transaction.is_some(),
        transactions::reads_in_one_transaction,
    ),
    open("connects-anew", |subject| subject.has_option("connection"), connects_anew),
    open(
        "refuses-a-blob-over-the-limit",
        |subject| subject.caps().blob_bytes_max.is_some(),
        refuses_over_the_limit,
    ),
    open("catalogues-uploads", |subject| subject.caps().catalogue, catalogues::catalogues_uploads),
    own(
        CheckKind::AnyClass,
        "forgets-unfinished-uploads",
        |subject| subject.caps().catalogue && subject.plain,
        catalogues::forgets_unfinished_uploads,
    ),
    own(CheckKind::Backup, "backs-up-and-restores", backups::applies, backups::backs_up_and_restores),
    open("compacts", compactions::applies, compactions::compacts),
    open("serves-by-as-many-processes", |subject| subject.has_option("workers"), serves_by_as_many_processes),
    open("facts-stay", always, facts_stay),
    own(
        CheckKind::AnyClass,
        "holds-a-large-blob",
        |subject| subject.plain && (subject.durability >= Durability::OnSync || has_one_class(subject)),
        holds_a_large_blob,
    ),
    own(
        CheckKind::ByClass,
        "takes-no-more-inodes-than-it-says",
        |subject| subject.plain && (subject.durability == Durability::None || has_one_class(subject)),
        takes_no_more_inodes,
    ),
    own(CheckKind::ByClass, "survives-reopening", |subject| subject.caps().persistent, survives_reopening),
    own(CheckKind::AnyClass, "leaves-nothing-behind", always, leaves_nothing_behind),
    own(
        CheckKind::ByClass,
        "keeps-the-words-of-its-class",
        |subject| subject.durability > Durability::None,
        keeps_its_words,
    ),
];

/// Checks that a store refuses what it does not declare.
const REFUSALS: &[ConformanceCheck] = &[
    open("refuses-changes", |subject| !subject.caps().changes, refuses_changes),
    open("refuses-ranges", |subject| !subject.caps().range, refuses_ranges),
    open("refuses-a-second-session", |subject| !subject.caps().many, refuses_a_second_session),
    open("refuses-to-be-joined", |subject| subject.invites() == Some(false), refuses_to_be_joined),
    open("refuses-to-list", |subject| !subject.caps().list, refuses_to_list),
    open("refuses-to-count", |subject| !subject.caps().totals, refuses_to_count),
    open("refuses-batches", |subject| !subject.caps().batch, refuses_batches),
    open("refuses-to-get-several", |subject| !subject.caps().get_many, refuses_to_get_several),
    open(
        "refuses-one-transaction",
        |subject| subject.caps().one_transaction.is_none(),
        transactions::refuses_one_transaction,
    ),
    open(
        "refuses-to-connect",
        |subject| !subject.has_option("connection") && !subject.has_option("keepalive"),
        refuses_to_connect,
    ),
    open("refuses-a-catalogue", |subject| !subject.caps().catalogue, catalogues::refuses_a_catalogue),
    open("refuses-a-backup", backups::refuses, backups::refuses_a_backup),
    open("refuses-to-compact", compactions::refuses, compactions::refuses_to_compact),
    own(
        CheckKind::AnyClass,
        "forgets-when-closed",
        |subject| !subject.caps().persistent,
        forgets_when_closed,
    ),
];

const SETTLING: &[ConformanceCheck] = &[own(
    CheckKind::AnyClass,
    "settles-once",
    |subject| subject.caps().persistent && !subject.is_server(),
    settles_once,
)];

fn always(_: &Subject) -> bool {
    true
}

fn changes(subject: &Subject) -> bool {
    subject.caps().changes
}

/// True if the store has no other class.
pub fn has_one_class(subject: &Subject) -> bool {
    subject.caps().durability.len() == 1
}

/// The loss that a store declares after a power cut in a durable class: recent writes at most, and in each-write nothing unless
/// any sudden end may tear a put.
fn keeps_its_words(case: &Case) -> Result<()> {
    let (subject, loss) = (case.subject, case.subject.loss());
    let most = match subject.durability {
        Durability::EachWrite => loss.after_kill,
        Durability::None | Durability::OnSync => Loss::RecentWrites,
    };
    ensure!(
        loss.after_power_cut <= most.min(Loss::RecentWrites),
        "in class {} it declares `{}` after a power cut: what was synced is not kept",
        subject.durability.name(),
        loss.after_power_cut.name()
    );
    Ok(())
}

/// Sizes around every boundary that a store may have: 0, 1, odd ones, pages, pieces, buffers.
const SIZES: &[usize] = &[
    0, 1, 2, 63, 64, 65, 509, 511, 512, 513, 1023, 1024, 1025, 3001, 4032, 4095, 4096, 4097, 8191, 8192,
    8193, 16_385, 65_535, 65_536, 65_537, 131_071, 262_143, 262_144, 262_145, 500_009, 1_048_575, 1_048_577,
    3_000_017,
];

fn returns_what_was_put(bench: &mut Bench) -> Result<()> {
    // Of a slow store, `holds-a-large-blob` has the largest.
    let most = if bench.subject.is_slow { 1 << 19 } else { usize::MAX };
    let keys = bench.keys(SIZES.len() as u64);
    let mut hand = bench.hand()?;
    let sizes = SIZES.iter().filter(|size| **size <= most);
    let blobs: Vec<Vec<u8>> = keys.iter().zip(sizes).map(|(key, size)| blob(key.id, 0, *size)).collect();
    for (key, blob) in keys.iter().zip(&blobs) {
        hand.put(key, blob)?;
        hand.expect(key, Some(blob))?;
    }
    hand.sync()?;
    for (key, blob) in keys.iter().zip(&blobs) {
        hand.expect(key, Some(blob))?;
    }
    Ok(())
}

/// Puts a blob larger than a packet of MySQL's (2^24 - 1 B) and than the buffers of most stores, or the largest allowed one.
fn holds_a_large_blob(case: &Case) -> Result<()> {
    const LEN: u64 = 17_000_003;
    let len = case.subject.caps().blob_bytes_max.map_or(LEN, |limit| limit.bytes.min(LEN));
    let mut bench = Bench::open_for(case.world, case.subject, len)?;
    let keys = bench.keys(1);
    let large = blob(keys[0].id, 0, len as usize);
    let mut hand = bench.hand()?;
    hand.put(&keys[0], &large)?;
    hand.expect(&keys[0], Some(&large))?;
    if bench.subject.caps().range {
        let span = Span::Part { offset: len - 300_000, len: 200_000 };
        hand.expect_span(&keys[0], span, Some(span.slice_of(&large)))?;
    }
    drop(hand);
    bench.close()
}

/// A store must not lend a larger blob as one piece, unless it lies in a mapped file, which the kernel keeps in memory as it sees
/// fit.
fn reads_in_pieces(bench: &mut Bench) -> Result<()> {
    const LEN: usize = 3 * PIECE_BYTES_MAX;
    let keys = bench.keys(1);
    let large = blob(keys[0].id, 0, LEN);
    let mut hand = bench.hand()?;
    hand.put(&keys[0], &large)?;
    let (mut bytes, mut most) = (0, 0);
    hand.get_by(&keys[0], &mut |piece| {
        bytes += piece.len();
        if piece.len() > PIECE_BYTES_MAX && !is_of_a_mapped_file(piece) {
            most = most.max(piece.len());
        }
    })?;
    ensure!(bytes == LEN, "{bytes} B of a blob of {LEN} B were lent");
    ensure!(
        most == 0,
        "a piece of {most} B was held in memory, of a store that reads in pieces of {PIECE_BYTES_MAX} B at most"
    );
    Ok(())
}

/// True if the piece lies in a mapped file by the kernel's list of mappings.
fn is_of_a_mapped_file(piece: &[u8]) -> bool {
    let address = piece.as_ptr() as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let (range, rest) = line.split_once(' ').unwrap_or_default();
        let (begin, end) = range.split_once('-').unwrap_or_default();
        let [begin, end] = [begin, end].map(|number| usize::from_str_radix(number, 16).unwrap_or(0));
        (begin..end).contains(&address) && rest.contains(" /")
    })
}

fn replaces(bench: &mut Bench) -> Result<()> {
    const LENS: &[usize] = &[10_000, 100, 300_000, 299_999, 0, 1, 70_000, 70_000, 5_000, 5_001];
    let keys = bench.keys(3);
    let range = bench.subject.caps().range;
    let mut hand = bench.hand()?;
    let neighbour = blob(keys[1].id, 0, 4321);
    hand.put(&keys[1], &neighbour)?;
    for (generation, len) in LENS.iter().enumerate() {
        let new = blob(keys[0].id, generation as u64, *len);
        hand.put(&keys[0], &new)?;
        hand.expect(&keys[0], Some(&new))?;
        if range {
            let span = Span::Part { offset: *len as u64 / 2, len: 1 << 20 };
            hand.expect_span(&keys[0], span, Some(span.slice_of(&new)))?;
        }
    }
    hand.expect(&keys[1], Some(&neighbour)).context("the neighbour of a blob that was replaced")
}

fn deletes_twice(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(3);
    let range = bench.subject.caps().range;
    let mut hand = bench.hand()?;
    let (kept, gone) = (blob(keys[0].id, 0, 5000), blob(keys[1].id, 0, 70_000));
    hand.put(&keys[0], &kept)?;
    hand.put(&keys[1], &gone)?;
    for round in 0..2 {
        hand.delete(&keys[1]).with_context(|| format!("delete number {}", round + 1))?;
        hand.expect(&keys[1], None)?;
        if range {
            hand.expect_span(&keys[1], Span::Part { offset: 0, len: 10 }, None)?;
        }
    }
    hand.delete(&keys[2]).context("delete of a key that was never put")?;
    hand.expect(&keys[2], None)?;
    hand.expect(&keys[0], Some(&kept)).context("the neighbour of a blob that was deleted")?;
    let again = blob(keys[1].id, 1, 300);
    hand.put(&keys[1], &again)?;
    hand.expect(&keys[1], Some(&again)).context("put again after it was deleted")
}

/// Spans with ends at every boundary within a blob, beyond its end, and at the limits of the types.
fn spans(len: u64) -> BTreeSet<(u64, u64)> {
    const BORDERS: &[u64] = &[0, 512, 4096, 65_536, 262_144];
    let mut spans = BTreeSet::from([(0, len), (7, u64::MAX)]);
    for border in BORDERS.iter().filter(|border| **border <= len) {
        for offset in [border.saturating_sub(1), *border, border + 1] {
            spans.extend([0, 1, 2, 511, 513, 4096, 70_000].map(|len| (offset, len)));
        }
    }
    for offset in [len.saturating_sub(1), len, len + 1] {
        spans.extend([0, 1, 1 << 20, 1 << 31, 1 << 32, u64::MAX].map(|len| (offset, len)));
    }
    for offset in [1 << 31, 1 << 32, 1 << 40, u64::MAX] {
        spans.extend([1, u64::MAX].map(|len| (offset, len)));
    }
    spans
}

fn exact_ranges(bench: &mut Bench) -> Result<()> {
    const LENS: &[usize] = &[4096, 200_003, 0, 1, 600_001];
    let lens = if bench.subject.gets_few_ops() { &LENS[..2] } else { LENS };
    let keys = bench.keys(LENS.len() as u64 + 1);
    let mut hand = bench.hand()?;
    for (key, len) in keys.iter().zip(lens) {
        let whole = blob(key.id, 0, *len);
        hand.put(key, &whole)?;
        for (offset, len) in spans(*len as u64) {
            let span = Span::Part { offset, len };
            hand.expect_span(key, span, Some(span.slice_of(&whole)))
                .with_context(|| format!("a blob of {} B", whole.len()))?;
        }
    }
    let missing = &keys[LENS.len()];
    for span in [Span::Part { offset: 0, len: 0 }, Span::Part { offset: 9, len: 9 }] {
        hand.expect_span(missing, span, None).context("a key without a blob")?;
    }
    Ok(())
}

fn refuses_changes(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(2);
    let kept = blob(keys[0].id, 0, 5000);
    let mut hand = bench.hand()?;
    hand.put(&keys[0], &kept)?;
    refused(hand.bare().put(&keys[0], b"new"), "a put in place of a blob")?;
    for key in &keys {
        refused(hand.bare().delete(key), "a delete")?;
    }
    hand.expect(&keys[0], Some(&kept)).context("after changes that were refused")
}

fn refuses_ranges(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(1);
    let mut hand = bench.hand()?;
    hand.put(&keys[0], &blob(keys[0].id, 0, 1000))?;
    let span = Span::Part { offset: 10, len: 10 };
    refused(hand.bare().get(&keys[0], span, &mut |_| {}), "a range read")
}

fn sessions_agree(bench: &mut Bench) -> Result<()> {
    // Each of four sessions writes for each other one in turn.
    let keys = bench.keys(12);
    let generations = if bench.subject.caps().changes { 2 } else { 1 };
    let mut hands = (0..4).map(|_| bench.hand()).collect::<Result<Vec<_>>>()?;
    for (turn, key) in keys.iter().enumerate() {
        let (writer, reader) = (turn % 4, (turn + 1 + turn / 4) % 4);
        for generation in 0..generations {
            let new = blob(key.id, generation, 1000 + 777 * turn);
            hands[writer].put(key, &new)?;
            hands[reader]
                .expect(key, Some(&new))
                .context("read by another session after the put returned")?;
        }
        if bench.subject.caps().changes {
            hands[reader].delete(key)?;
            hands[writer].expect(key, None).context("read by another session after the delete returned")?;
        }
    }
    Ok(())
}

fn refuses_a_second_session(bench: &mut Bench) -> Result<()> {
    let store = bench.store()?;
    let first = store.session().context("cannot open a session")?;
    refused(store.session(), "a second session")?;
    drop(first);
    store.session().context("cannot open a session after the first one ended").map(drop)
}

/// Builds a blob that identifies its put: key, writer, generation and length are in its first bytes, and the rest follows from
/// them.
fn signed(id: u64, writer: u64, generation: u64) -> Vec<u8> {
    let tag = writer << 32 | generation;
    let len = 20_000 + (tag.wrapping_mul(7919) % 90_000) as usize;
    let mut bytes = blob(id, tag, len);
    bytes[..8].copy_from_slice(&tag.to_le_bytes());
    bytes
}

fn check_signed(id: u64, bytes: &[u8]) -> Result<()> {
    let tag = bytes.first_chunk::<8>().map(|tag| u64::from_le_bytes(*tag)).context("it has no signature")?;
    let (writer, generation) = (tag >> 32, tag & 0xffff_ffff);
    ensure!(writer <= 2 && generation <= TORN_PUTS, "its signature {tag:x} was never put");
    let wanted = signed(id, writer, generation);
    ensure!(
        bytes == wanted,
        "it is a mixture: {} B that begin like generation {generation} of writer {writer}, which has {} B",
        bytes.len(),
        wanted.len()
    );
    Ok(())
}

/// Puts and deletes of one process are visible to the other, and a process that joined can leave.
fn is_joined(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(3);
    let joined = bench.join()?;
    {
        let mut own = bench.hand()?;
        let mut other = Hand::open(&*joined, &bench.subject)?;
        for (key, generation) in keys.iter().zip(0..) {
            let put = blob(key.id, generation, 5000);
            let (one, two) = if generation == 1 { (&mut other, &mut own) } else { (&mut own, &mut other) };
            one.put(key, &put)?;
            two.expect(key, Some(&put)).context("what the other one put")?;
            let replaced = blob(key.id, generation + 10, 300);
            two.put(key, &replaced)?;
            two.sync()?;
            one.expect(key, Some(&replaced)).context("what the other one replaced")?;
        }
        other.delete(&keys[0])?;
        own.expect(&keys[0], None).context("what the other one deleted")?;
        own.put(&keys[0], &blob(keys[0].id, 20, 700))?;
    }
    joined.close().context("cannot leave it")?;
    bench.hand()?.expect(&keys[0], Some(&blob(keys[0].id, 20, 700))).context("after the other one left")
}

fn refuses_to_be_joined(bench: &mut Bench) -> Result<()> {
    ensure!(bench.store()?.join_token().is_err(), "it invites, and says that it is for one process");
    Ok(())
}

const TORN_PUTS: u64 = 60;

fn no_torn_blobs(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(2);
    let bench = &*bench;
    {
        let mut hand = bench.hand()?;
        keys.iter().try_for_each(|key| hand.put(key, &signed(key.id, 0, 0)))?;
    }
    let puts = match bench.subject.gets_few_ops() {
        true => TORN_PUTS / 12,
        false if bench.subject.is_a_server_with_an_option() => TORN_PUTS / 3,
        false => TORN_PUTS,
    };
    let writing = AtomicU64::new(2);
    let failed = AtomicBool::new(false);
    let write = |writer: u64| -> Result<()> {
        let mut hand = bench.hand()?;
        for generation in 1..=puts {
            for key in &keys {
                hand.put(key, &signed(key.id, writer, generation))?;
            }
            if failed.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    };
    let read = || -> Result<()> {
        let mut hand = bench.hand()?;
        let mut last = false;
        loop {
            for key in &keys {
                let bytes = hand.get(key, Span::Whole)?.context("a blob is missing while it is replaced")?;
                check_signed(key.id, &bytes).with_context(|| format!("blob {}", key.id))?;
            }
            if last {
                return Ok(());
            }
            // Once more after the writers have ended.
            last = writing.load(Ordering::SeqCst) == 0;
        }
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for writer in 1..=2 {
            let (write, writing, failed) = (&write, &writing, &failed);
            threads.push(scope.spawn(move || {
                let outcome = write(writer).with_context(|| format!("writer {writer}"));
                writing.fetch_sub(1, Ordering::SeqCst);
                failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                outcome
            }));
        }
        let (read, failed) = (&read, &failed);
        threads.push(scope.spawn(move || {
            let outcome = read().context("the reader");
            failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            outcome
        }));
        let outcomes: Vec<Result<()>> = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_panic| anyhow!("it panicked"))?)
            .collect();
        outcomes.into_iter().collect()
    })
}

/// Expected contents of the store, by key id.
type Model = BTreeMap<u64, Vec<u8>>;

fn agrees_with_a_map(bench: &mut Bench) -> Result<()> {
    let is_short = bench.subject.gets_few_ops() || bench.subject.is_a_server_with_an_option();
    let ops = if is_short { 100 } else { 1000 };
    let keys = bench.keys(48);
    let caps = bench.subject.caps();
    let mut random = SmallRng::seed_from_u64(0x6d61_7020);
    let mut model = Model::new();
    let mut hand = bench.hand()?;
    for op in 0..ops {
        // A new session now and then, so that no answer depends on a session's state.
        if op % 50 == 49 {
            hand = bench.hand()?;
        }
        one_random_op(bench, &mut hand, &keys, &mut model, &mut random, op)
            .with_context(|| format!("op {op}"))?;
    }
    let store = bench.store()?;
    store.settle().context("settle")?;
    store.purge().context("purging")?;
    for key in &keys {
        hand.expect(key, model.get(&key.id).map(Vec::as_slice)).context("after all ops")?;
    }
    if caps.list {
        expect_listed(&mut hand, &keys, &model)?;
    }
    Ok(())
}

fn one_random_op(
    bench: &Bench,
    hand: &mut Hand,
    keys: &[Key],
    model: &mut Model,
    random: &mut SmallRng,
    op: u64,
) -> Result<()> {
    let caps = bench.subject.caps();
    let key = &keys[random.random_range(0..keys.len())];
    let len = match random.random_range(0..10) {
        0 => 0,
        1..=6 => random.random_range(1..3000),
        7 | 8 => random.random_range(3000..80_000),
        _ => random.random_range(80_000..300_000),
    };
    match random.random_range(0..100) {
        0..40 if caps.changes || !model.contains_key(&key.id) => {
            let new = blob(key.id, op, len);
            hand.put(key, &new)?;
            model.insert(key.id, new);
        }
        40..55 if caps.changes => {
            hand.delete(key)?;
            model.remove(&key.id);
        }
        55..75 => hand.expect(key, model.get(&key.id).map(Vec::as_slice))?,
        75..87 if caps.range => {
            let span = Span::Part { offset: random.random_range(0..100_000), len: len as u64 };
            let wanted = model.get(&key.id).map(|blob| span.slice_of(blob));
            hand.expect_span(key, span, wanted)?;
        }
        87..90 => hand.sync()?,
        90..92 if caps.list => expect_listed(hand, keys, model)?,
        92 => bench.store()?.settle().context("settle")?,
        93 => bench.store()?.purge().context("purging")?,
        94..96 if caps.batch => {
            let chosen = chosen(keys, random);
            let blobs: Vec<Vec<u8>> = chosen.iter().map(|key| blob(key.id, op, len / 4)).collect();
            let batch: Vec<(Key, &[u8])> =
                chosen.iter().copied().zip(blobs.iter().map(Vec::as_slice)).collect();
            hand.put_batch(&batch)?;
            model.extend(chosen.iter().map(|key| key.id).zip(blobs));
        }
        96 if caps.batch => {
            let chosen = chosen(keys, random);
            hand.delete_batch(&chosen)?;
            chosen.iter().for_each(|key| drop(model.remove(&key.id)));
        }
        97..100 if caps.get_many => {
            let chosen = chosen(keys, random);
            let wanted: Vec<Option<&[u8]>> =
                chosen.iter().map(|key| model.get(&key.id).map(Vec::as_slice)).collect();
            hand.expect_many(&chosen, &wanted)?;
        }
        _ => hand.expect(key, model.get(&key.id).map(Vec::as_slice))?,
    }
    Ok(())
}

fn chosen(keys: &[Key], random: &mut SmallRng) -> Vec<Key> {
    (0..random.random_range(1..9)).map(|_| keys[random.random_range(0..keys.len())]).collect()
}

/// Fails unless exactly those of the given keys that have a blob are listed, each once.
fn expect_listed(hand: &mut Hand, keys: &[Key], model: &Model) -> Result<()> {
    let listed = hand.list()?;
    let mut wanted: Vec<&str> =
        keys.iter().filter(|key| model.contains_key(&key.id)).map(Key::as_str).collect();
    wanted.sort_unstable();
    let found: Vec<&str> = listed
        .iter()
        .map(String::as_str)
        .filter(|listed| keys.iter().any(|key| key.as_str() == *listed))
        .collect();
    ensure!(
        found == wanted,
        "{} keys are listed and {} are there; first difference: {:?}",
        found.len(),
        wanted.len(),
        found.iter().zip(&wanted).find(|(found, wanted)| found != wanted)
    );
    Ok(())
}

fn counts_all(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(30);
    let changes = bench.subject.caps().changes;
    let (blobs, bytes) = bench.store()?.totals()?;
    let mut hand = bench.hand()?;
    let mut wanted = (blobs, bytes);
    for (index, key) in keys.iter().enumerate() {
        let len = index * 7001 % 100_000;
        if changes {
            hand.put(key, b"replaced")?;
        }
        hand.put(key, &blob(key.id, 0, len))?;
        if changes && index % 3 == 0 {
            hand.delete(key)?;
        } else {
            wanted = (wanted.0 + 1, wanted.1 + len as u64);
        }
    }
    hand.sync()?;
    drop(hand);
    let found = bench.store()?.totals()?;
    ensure!(found == wanted, "{found:?} blobs and bytes are counted instead of {wanted:?}");
    Ok(())
}

fn refuses_to_count(bench: &mut Bench) -> Result<()> {
    refused(bench.store()?.totals(), "a count of all")
}

fn lists(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(150);
    let mut hand = bench.hand()?;
    let before = hand.list()?;
    let mut model = Model::new();
    for key in &keys[..120] {
        let new = blob(key.id, 0, (key.id as usize * 37) % 3000);
        hand.put(key, &new)?;
        model.insert(key.id, new);
    }
    if bench.subject.caps().changes {
        for key in &keys[..16] {
            hand.put(key, b"replaced")?;
        }
        for key in &keys[10..26] {
            hand.delete(key)?;
            model.remove(&key.id);
        }
    }
    expect_listed(&mut hand, &keys, &model)?;
    let listed = hand.list()?;
    let mut wanted = before;
    wanted.extend(keys.iter().filter(|key| model.contains_key(&key.id)).map(|key| key.as_str().to_owned()));
    wanted.sort();
    ensure!(listed == wanted, "{} keys are listed instead of {}", listed.len(), wanted.len());
    Ok(())
}

fn refuses_to_list(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(1);
    let mut hand = bench.hand()?;
    hand.put(&keys[0], b"something to list")?;
    refused(hand.bare().list(&mut |_| {}), "list")
}

fn batches(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(140);
    let get_many = bench.subject.caps().get_many;
    let mut hand = bench.hand()?;
    let old = blob(keys[3].id, 9, 5000);
    hand.put(&keys[3], &old)?;
    for count in [1, 7, 130] {
        let blobs: Vec<Vec<u8>> = keys[..count]
            .iter()
            .map(|key| blob(key.id, count as u64, (key.id as usize * 991) % 9000))
            .collect();
        let batch: Vec<(Key, &[u8])> = keys.iter().copied().zip(blobs.iter().map(Vec::as_slice)).collect();
        hand.put_batch(&batch)?;
        for (key, blob) in &batch {
            hand.expect(key, Some(blob)).with_context(|| format!("after a batch of {count}"))?;
        }
        // In reverse order, with a missing key in between and one key twice.
        let mut asked: Vec<Key> = keys[..count].iter().rev().copied().collect();
        let mut wanted: Vec<Option<&[u8]>> = blobs.iter().rev().map(|blob| Some(blob.as_slice())).collect();
        asked.insert(1, keys[139]);
        wanted.insert(1, None);
        asked.push(keys[0]);
        wanted.push(Some(&blobs[0]));
        if get_many {
            hand.expect_many(&asked, &wanted)?;
        }
    }
    // As with single puts, the last one wins.
    let (first, last) = (blob(keys[5].id, 50, 700), blob(keys[5].id, 51, 300));
    let other = blob(keys[6].id, 50, 10);
    hand.put_batch(&[(keys[5], &first), (keys[6], &other), (keys[5], &last)])
        .context("with one key twice")?;
    hand.expect(&keys[5], Some(&last)).context("put twice in one batch")?;
    hand.expect(&keys[6], Some(&other)).context("beside one that was put twice")?;
    // Includes missing keys, and one key twice.
    hand.delete_batch(&[keys[0], keys[139], keys[1], keys[0]])?;
    for key in &keys[..2] {
        hand.expect(key, None).context("after a batch of deletes")?;
    }
    hand.get(&keys[2], Span::Whole)?.context("the neighbour of deleted blobs is missing")?;
    hand.delete_batch(&keys)?;
    for key in &keys {
        hand.expect(key, None).context("after a batch of deletes")?;
    }
    Ok(())
}

/// Every blob is delivered for its own key, even if some are missing, empty or requested twice.
fn gets_several(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(130);
    let mut hand = bench.hand()?;
    // Every fifth key has no blob; sizes exceed a packet or buffer.
    let blobs: Vec<Option<Vec<u8>>> = keys
        .iter()
        .enumerate()
        .map(|(place, key)| (place % 5 != 3).then(|| blob(key.id, 0, [0, 1, 700, 70_000][place % 4])))
        .collect();
    for (key, blob) in keys.iter().zip(&blobs) {
        blob.as_deref().map_or(Ok(()), |blob| hand.put(key, blob))?;
    }
    for asked in [1, 2, 20, keys.len()] {
        let mut places: Vec<usize> = (0..asked).rev().collect();
        places.push(0);
        let keys: Vec<Key> = places.iter().map(|place| keys[*place]).collect();
        let wanted: Vec<Option<&[u8]>> = places.iter().map(|place| blobs[*place].as_deref()).collect();
        hand.expect_many(&keys, &wanted)?;
    }
    if !bench.subject.caps().changes {
        return Ok(());
    }
    let new = blob(keys[0].id, 1, 900);
    hand.put(&keys[0], &new)?;
    hand.delete(&keys[1])?;
    hand.expect_many(&keys[..2], &[Some(&new), None]).context("after a put and a delete")
}

fn refuses_to_get_several(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(2);
    let mut hand = bench.hand()?;
    hand.put(&keys[0], b"one")?;
    refused(hand.bare().get_many(&keys, &mut |_, _| {}), "a get of many")
}

fn refuses_batches(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(2);
    let kept = blob(keys[0].id, 0, 100);
    let mut hand = bench.hand()?;
    hand.put(&keys[0], &kept)?;
    refused(hand.bare().put_batch(&[(keys[1], b"new")]), "a batch of puts")?;
    refused(hand.bare().delete_batch(&keys), "a batch of deletes")?;
    hand.expect(&keys[0], Some(&kept)).context("after a batch that was refused")?;
    hand.expect(&keys[1], None).context("after a batch that was refused")
}

fn connects_anew(bench: &mut Bench) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let keys = bench.keys(1);
    // Each looks at the sockets of every process of the machine.
    let times = if bench.subject.is_a_server_with_an_option() { 2 } else { 5 };
    let mut hand = bench.hand()?;
    for generation in 0..times {
        let new = blob(keys[0].id, generation, 1000);
        hand.put(&keys[0], &new)?;
        let before = processes::sockets(&bench.home.store);
        hand.bare().connect().context("cannot connect again")?;
        // Sockets of a server elsewhere are not visible. Web servers may accept a connection only with its first request, and
        // close it then.
        let is_seen = !before.is_empty() && !bench.subject.has_option("keepalive");
        let missing = processes::wait_until_none(PATIENCE, || {
            let has_come = || !processes::sockets(&bench.home.store).is_subset(&before);
            if !is_seen || has_come() { Vec::new() } else { vec!["a new connection"] }
        });
        ensure!(missing.is_empty(), "{missing:?} has not come to the server");
        hand.expect(&keys[0], Some(&new)).context("after connecting again")?;
    }
    Ok(())
}

fn refuses_to_connect(bench: &mut Bench) -> Result<()> {
    refused(bench.hand()?.bare().connect(), "a connection for each op")
}

fn refuses_over_the_limit(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(2);
    let caps = bench.subject.caps();
    let limit = caps.blob_bytes_max.context("there is no limit")?;
    let over = pages::Zeros::new(limit.bytes as usize + 1)?;
    let mut hand = bench.hand()?;
    let small = blob(keys[0].id, 0, 100);
    hand.put(&keys[0], &small)?;
    refused_for_its_size(hand.bare().put(&keys[0], over.as_slice()), limit.bytes)?;
    hand.expect(&keys[0], Some(&small)).context("after a blob over the limit was refused")?;
    if caps.batch {
        let batch = [(keys[1], small.as_slice()), (keys[0], over.as_slice())];
        refused_for_its_size(hand.bare().put_batch(&batch), limit.bytes).context("in a batch")?;
        hand.expect(&keys[0], Some(&small)).context("after a batch over the limit was refused")?;
        hand.expect(&keys[1], None).context("of a batch over the limit that was refused")?;
    }
    Ok(())
}

fn refused_for_its_size(outcome: crate::store::Result<()>, limit: u64) -> Result<()> {
    match outcome {
        Ok(()) => bail!("a blob of one byte more than {limit} B was accepted"),
        Err(Error::Failed(error)) if format!("{error:#}").contains(&limit.to_string()) => Ok(()),
        Err(error) => Err(anyhow!(error).context(format!("it does not name the limit of {limit} B"))),
    }
}

/// The facts state the number of processes that serve: as many as requested, and as many as the web server has started.
fn serves_by_as_many_processes(bench: &mut Bench) -> Result<()> {
    let asked = bench.subject.options.number("workers") as usize;
    let store = bench.store()?;
    let facts = store.facts()?;
    let said = |name: &str| facts.get(name).and_then(|said| said.parse::<usize>().ok());
    let serving = said("processes that serve").context("the facts do not say by how many processes")?;
    ensure!(asked == 0 || asked == serving, "asked for {asked} processes, and {serving} serve");
    let of_php = said("processes of PHP");
    ensure!(asked == 0 || of_php.is_none_or(|of_php| of_php == asked), "{of_php:?} of PHP for {asked}");
    // The web server is started last and listed first.
    let web = store.servers().into_iter().next().context("no server serves")?;
    let wanted = match web.name().starts_with("php-fpm") {
        true => of_php.context("the facts do not say how many of PHP")?,
        false => serving,
    };
    let started = web.started_processes().max(1);
    ensure!(started == wanted, "the facts say {wanted}, and `{}` has {started}", web.name());
    Ok(())
}

/// Facts are versions and settings, which use must not change.
fn facts_stay(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(if bench.subject.is_slow { 6 } else { 30 });
    let before = bench.store()?.facts().context("facts")?;
    if let Some((name, _)) =
        before.iter().find(|(name, value)| name.trim().is_empty() || value.trim().is_empty())
    {
        bail!("the fact `{name}` says nothing");
    }
    let mut hand = bench.hand()?;
    keys.iter().try_for_each(|key| hand.put(key, &blob(key.id, 0, 8_000)))?;
    if bench.subject.caps().changes {
        keys.iter().try_for_each(|key| hand.put(key, &blob(key.id, 1, 8_000)))?;
        keys[..keys.len() / 2].iter().try_for_each(|key| hand.delete(key))?;
    }
    hand.sync()?;
    expect_facts(&before, &bench.store()?.facts()?)?;
    bench.store()?.settle().context("settle")?;
    expect_facts(&before, &bench.store()?.facts()?)?;
    drop(hand);
    if bench.subject.caps().persistent {
        bench.reopen()?;
        expect_facts(&before, &bench.store()?.facts()?).context("after reopening")?;
    }
    Ok(())
}

fn expect_facts(before: &Facts, after: &Facts) -> Result<()> {
    for name in before.keys().chain(after.keys()) {
        let (before, after) = (before.get(name), after.get(name));
        ensure!(before == after, "the fact `{name}` changed by use from {before:?} to {after:?}");
    }
    Ok(())
}

/// Puts, replaces and deletes blobs, as far as the store does; returns the expected contents.
fn fill(bench: &mut Bench) -> Result<(Vec<Key>, Model)> {
    let keys = bench.keys(60);
    let mut model = Model::new();
    let mut hand = bench.hand()?;
    let times: &[usize] = if bench.subject.caps().changes { &[7919, 6131] } else { &[7919] };
    for (generation, times) in (0..).zip(times) {
        for key in &keys {
            let new = blob(key.id, generation, (key.id as usize * times) % 50_000);
            hand.put(key, &new)?;
            model.insert(key.id, new);
        }
    }
    for key in keys[10..20].iter().filter(|_| bench.subject.caps().changes) {
        hand.delete(key)?;
        model.remove(&key.id);
    }
    Ok((keys, model))
}

fn expect_all(bench: &Bench, keys: &[Key], model: &Model) -> Result<()> {
    let mut hand = bench.hand()?;
    for key in keys {
        hand.expect(key, model.get(&key.id).map(Vec::as_slice))?;
    }
    if bench.subject.caps().list {
        expect_listed(&mut hand, keys, model)?;
    }
    Ok(())
}

/// Closing is enough to keep the data: without a sync, twice, after settling, and with nothing of it in the page cache. Then a
/// key that has no blob is read first.
fn survives_reopening(case: &Case) -> Result<()> {
    let mut bench = Bench::open(case.world, case.subject)?;
    let (mut keys, mut model) = fill(&mut bench)?;
    bench.reopen()?;
    expect_all(&bench, &keys, &model).context("after reopening")?;
    let changes = case.subject.caps().changes;
    let written = if changes { keys[..10].to_vec() } else { bench.keys(10) };
    for key in &written {
        let new = blob(key.id, 2, 3000);
        bench.hand()?.put(key, &new)?;
        model.insert(key.id, new);
    }
    if changes {
        bench.hand()?.delete(&keys[30])?;
        model.remove(&keys[30].id);
    } else {
        keys.extend(written);
    }
    bench.store()?.settle().context("settle")?;
    expect_all(&bench, &keys, &model).context("after settling")?;
    bench.close()?;
    machine::sync_filesystem(&bench.home.store)?;
    machine::evict(&bench.home.store);
    bench.open_again()?;
    let stranger = bench.keys(1)[0];
    bench.hand()?.expect(&stranger, None)?;
    expect_all(&bench, &keys, &model).context("after a cold start")?;
    bench.close()
}

fn forgets_when_closed(case: &Case) -> Result<()> {
    let mut bench = Bench::open(case.world, case.subject)?;
    let (keys, _) = fill(&mut bench)?;
    bench.reopen()?;
    expect_all(&bench, &keys, &Model::new()).context("it says that it forgets when closed")?;
    bench.close()
}

/// Checks the declared number of inodes with more blobs than any store has files that hold many blobs.
fn takes_no_more_inodes(case: &Case) -> Result<()> {
    const BLOBS: u64 = 300;
    let mut bench = Bench::open(case.world, case.subject)?;
    let keys = bench.keys(BLOBS);
    let mut hand = bench.hand()?;
    keys.iter().try_for_each(|key| hand.put(key, &blob(key.id, 0, 100)))?;
    drop(hand);
    // Those that vanish meanwhile are ignored.
    let entries = walkdir::WalkDir::new(&bench.home.store).min_depth(1).into_iter().flatten();
    let (taken, said) = (entries.count() as u64, case.subject.caps().inodes.needed_for(BLOBS));
    ensure!(taken <= said, "it takes {taken} inodes for {BLOBS} blobs, and says {said} at most");
    Ok(())
}

/// After settling no work is left: neither settling again nor waiting for a moment changes a byte.
fn settles_once(case: &Case) -> Result<()> {
    let mut bench = Bench::open(case.world, case.subject)?;
    let (keys, mut model) = fill(&mut bench)?;
    // Many deletions leave the most to clean up.
    let mut hand = bench.hand()?;
    for key in keys[20..55].iter().filter(|_| case.subject.caps().changes) {
        hand.delete(key)?;
        model.remove(&key.id);
    }
    drop(hand);
    // On a busy machine a background thread of the store may not run while it is watched.
    let mut attempts = 3;
    while let Some(path) = changed_by_settling(&bench)? {
        attempts -= 1;
        ensure!(attempts > 0, "`{}` changed though the store had settled", path.display());
    }
    bench.store()?.catch_up().context("catch up")?;
    expect_all(&bench, &keys, &model).context("after catching up")?;
    bench.close()
}

fn changed_by_settling(bench: &Bench) -> Result<Option<std::path::PathBuf>> {
    bench.store()?.settle().context("settle")?;
    let settled = files_below(&bench.home.store)?;
    std::thread::sleep(Duration::from_millis(50));
    bench.store()?.settle().context("settle again")?;
    let again = files_below(&bench.home.store)?;
    let mut paths = settled.keys().chain(again.keys());
    Ok(paths.find(|path| settled.get(*path) != again.get(*path)).cloned())
}

/// The bytes of each file; `None` for one that was removed between being listed and being read, as background
/// threads of a store do.
fn files_below(dir: &std::path::Path) -> Result<BTreeMap<std::path::PathBuf, Option<Vec<u8>>>> {
    let mut files = BTreeMap::new();
    for entry in walkdir::WalkDir::new(dir) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.io_error().is_some_and(|error| error.kind() == ErrorKind::NotFound) => {
                files.insert(error.path().unwrap_or(dir).to_owned(), None);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        // Shared memory of SQLite's connections, which contains locks: not data, although it is a file.
        let is_memory = entry.file_name().to_string_lossy().ends_with(".sqlite-shm");
        if entry.file_type().is_file() && !is_memory {
            let bytes = match std::fs::read(entry.path()) {
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                read => Some(read.with_context(|| format!("read `{}`", entry.path().display()))?),
            };
            files.insert(entry.into_path(), bytes);
        }
    }
    Ok(files)
}

/// After closing, no process and no open file is left, and nothing outside the store's own directory has changed.
fn leaves_nothing_behind(case: &Case) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let mut bench = Bench::open(case.world, case.subject)?;
    let beside = bench.home.store.with_file_name("beside");
    std::fs::create_dir(&beside)?;
    std::fs::write(beside.join("precious"), b"of the user's")?;
    let before = files_around(&bench.home)?;
    fill(&mut bench)?;
    bench.store()?.settle().context("settle")?;
    let running = processes::using(&bench.home.store);
    ensure!(
        !bench.subject.is_server() || bench.subject.is_outside || !running.is_empty(),
        "no process of the running server was found: this check would not see one that is left"
    );
    bench.close()?;
    let left = processes::wait_until_none(PATIENCE, || processes::using(&bench.home.store));
    ensure!(left.is_empty(), "processes are left after closing: {left:?}");
    let files = processes::wait_until_none(PATIENCE, || processes::own_open_files(&bench.home.store));
    ensure!(files.is_empty(), "files are left open after closing: {files:?}");
    let after = files_around(&bench.home)?;
    for path in before.keys().chain(after.keys()) {
        ensure!(
            before.get(path) == after.get(path),
            "`{}`, which is not the store's, changed",
            path.display()
        );
    }
    Ok(())
}

/// What lies around the directory of a store, with the bytes of files.
fn files_around(home: &Home) -> Result<BTreeMap<std::path::PathBuf, Vec<u8>>> {
    let mut seen = BTreeMap::new();
    let mut entries = walkdir::WalkDir::new(home.around()).into_iter();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if entry.path() == home.store {
            entries.skip_current_dir();
            continue;
        }
        let bytes = if entry.file_type().is_file() { std::fs::read(entry.path())? } else { Vec::new() };
        seen.insert(entry.into_path(), bytes);
    }
    Ok(seen)
}
