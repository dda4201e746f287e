//! SIGKILL during a put: acknowledged writes are there afterwards, as far as the adapter's declared loss promises.
//!
//! A child process writes, and reports each op that has returned. For an embedded store the child is killed, for a server the
//! server's processes. This shows the cost of a process's death, and nothing about a power cut.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use blobwise::conformance::bench::{BLOB_BYTES_MAX, Bench, Hand, Home, blob, key, open};
use blobwise::conformance::check::Case;
use blobwise::conformance::processes;
use blobwise::conformance::subject::Subject;
use blobwise::store::{Durability, Key, Kind, Loss, Mode, Span};

/// First argument of this program as the process that writes until it is killed.
pub const CHILD: &str = "__writing";
/// Number of keys, which are written again and again by a store that replaces blobs.
const KEYS: u64 = 24;
/// Ops between two syncs.
const SYNC_EVERY: u64 = 10;
/// Timeout for a killed process to be gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// A write of the child. Both sides derive it from its number.
enum WriteOp {
    Put(Vec<(Key, Vec<u8>)>),
    Delete(Key),
    Sync,
}

/// Returns op number `number` of a subject.
fn op(subject: &Subject, number: u64) -> WriteOp {
    if number % SYNC_EVERY == SYNC_EVERY - 1 {
        return WriteOp::Sync;
    }
    if !subject.caps().changes {
        let len = 100 + number * 7919 % 60_000;
        return WriteOp::Put(vec![(key(number), blob(number, number, len as usize))]);
    }
    let written = |of: u64| {
        let id = (number * 7 + of * 5) % KEYS;
        let len = 100 + (number * 7919 + of * 104_729) % 60_000;
        (key(id), blob(id, number, len as usize))
    };
    match number % 6 {
        4 => WriteOp::Delete(key(number * 11 % KEYS)),
        5 if subject.caps().batch => WriteOp::Put((0..3).map(written).collect()),
        _ => WriteOp::Put(vec![written(0)]),
    }
}

/// Number of keys that ops with a smaller number than `count` write.
fn keys(subject: &Subject, count: u64) -> u64 {
    if subject.caps().changes { KEYS } else { count }
}

/// Writes until it is killed, and reports each op that has returned.
pub fn act(subject: &Subject, home: &Home) -> Result<()> {
    let store = open(subject, home, Mode::Create, BLOB_BYTES_MAX)?;
    let mut hand = Hand::open(store.as_ref(), subject)?;
    let mut out = std::io::stdout();
    for number in 0.. {
        match op(subject, number) {
            WriteOp::Put(blobs) if blobs.len() > 1 => {
                let batch: Vec<(Key, &[u8])> =
                    blobs.iter().map(|(key, blob)| (*key, blob.as_slice())).collect();
                hand.put_batch(&batch)?;
            }
            WriteOp::Put(blobs) => blobs.iter().try_for_each(|(key, blob)| hand.put(key, blob))?,
            WriteOp::Delete(key) => hand.delete(&key)?,
            WriteOp::Sync => hand.sync()?,
        }
        out.write_all(b"done\n")?;
        out.flush()?;
    }
    Ok(())
}

/// A child that writes; killed when dropped.
struct Writer {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    done: u64,
}

impl Writer {
    /// Starts one in a home of its own, and waits until this many ops are acknowledged.
    fn start(case: &Case, ops: u64) -> Result<(Home, Writer)> {
        case.world.warm(case.subject, BLOB_BYTES_MAX)?;
        let home = case.world.home()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(CHILD).arg(&case.subject.name).arg(&home.store).arg(&home.cache);
        command.current_dir(home.around()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(home.around().join("said"))?);
        #[expect(clippy::disallowed_methods, reason = "it is killed and waited for when dropped")]
        let mut child = command.spawn()?;
        let answers = BufReader::new(child.stdout.take().context("no pipe from the child")?);
        let mut writer = Writer { child, answers, done: 0 };
        while writer.done < ops {
            if !writer.one_more()? {
                let said = std::fs::read_to_string(home.around().join("said")).unwrap_or_default();
                bail!("the writing process ended after {} ops: {}", writer.done, said.trim());
            }
        }
        Ok((home, writer))
    }

    /// Reads the rest of the acknowledgements, and returns how many there were in total.
    fn read_to_the_end(&mut self) -> Result<u64> {
        while self.one_more()? {}
        self.child.wait()?;
        Ok(self.done)
    }

    fn one_more(&mut self) -> Result<bool> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        // An incomplete line was cut off by the kill: that op is not acknowledged.
        self.done += u64::from(line == "done\n");
        Ok(line == "done\n")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Kills during a put, opens the store again, and compares every blob with what the declared loss allows.
pub fn survives_process_kill(case: &Case) -> Result<()> {
    // Different numbers, so that the kills fall into different ops.
    let kills: &[u64] = if case.subject.is_server() { &[61] } else { &[23, 64, 187] };
    for ops in kills {
        survives_one(case, *ops).with_context(|| format!("killed after {ops} ops"))?;
    }
    Ok(())
}

fn survives_one(case: &Case, ops: u64) -> Result<()> {
    let (home, mut writer) = Writer::start(case, ops)?;
    let victims = victims(case.subject, &home, &writer)?;
    victims.iter().for_each(processes::Process::kill);
    let done = writer.read_to_the_end()?;
    drop(writer);
    let left = processes::wait_until_none(PATIENCE, || processes::using(&home.store));
    ensure!(left.is_empty(), "processes are left after the kill: {left:?}");
    let mut bench = Bench::adopt(case.subject, home, keys(case.subject, done + 1))?;
    compare(&bench, done)?;
    // The store must be usable.
    let more = bench.keys(1)[0];
    let mut hand = bench.hand()?;
    hand.put(&more, b"after the kill")?;
    hand.expect(&more, Some(b"after the kill"))?;
    drop(hand);
    bench.reopen()?;
    bench.hand()?.expect(&more, Some(b"after the kill")).context("put after the kill, and reopened")?;
    compare(&bench, done).context("after reopening once more")?;
    bench.close()
}

/// The server's processes, or the writing process for an embedded store.
fn victims(subject: &Subject, home: &Home, writer: &Writer) -> Result<Vec<processes::Process>> {
    let pid = writer.child.id() as i32;
    if !subject.is_server() {
        return Ok(vec![processes::Process { pid, command: String::new() }]);
    }
    let mut victims = processes::using(&home.store);
    // A composed store may keep its blobs in either process.
    let writer_too = subject.adapter.kind == Kind::Web;
    victims.retain(|process| (writer_too || process.pid != pid) && !process.is_supervisor());
    ensure!(!victims.is_empty(), "no process of the server was found");
    Ok(victims)
}

/// A state of a blob: the op that caused it, and its bytes.
type State = (u64, Option<Vec<u8>>);

fn compare(bench: &Bench, done: u64) -> Result<()> {
    let subject = &bench.subject;
    // The op in progress when the process died may have taken effect or not.
    let states = states(subject, done + 1);
    let promised = promised_until(subject, done);
    // Or a kill may leave a torn blob beyond the promise.
    let is_whole = subject.loss().after_kill == Loss::Nothing;
    let mut hand = bench.hand()?;
    let mut found = Vec::new();
    for (id, states) in states.iter().enumerate() {
        let bytes = hand.get(&key(id as u64), Span::Whole);
        // Beyond the promise every state is allowed: missing, old, empty, torn.
        if states.iter().any(|(number, _)| *number >= promised) && promised <= done && !is_whole {
            found.push(bytes.unwrap_or_default());
            continue;
        }
        let bytes = bytes.with_context(|| format!("{done} ops were acknowledged"))?;
        let last = states.iter().rposition(|(number, _)| *number < promised).unwrap_or(0);
        let allowed = &states[last..];
        ensure!(
            allowed.iter().any(|(_, state)| *state == bytes),
            "blob {id} has {:?} B; {} ops were acknowledged, and what it had after op {} or later must be there ({:?} B)",
            bytes.as_ref().map(Vec::len),
            done,
            allowed[0].0,
            allowed[0].1.as_ref().map(Vec::len)
        );
        found.push(bytes);
    }
    if is_whole {
        expect_all_or_none(subject, done, &found)?;
    }
    Ok(())
}

/// Ops with a smaller number must have taken effect.
fn promised_until(subject: &Subject, done: u64) -> u64 {
    match (subject.loss().after_kill, subject.durability) {
        (Loss::Nothing, _) | (_, Durability::EachWrite) => done,
        // Up to the last acknowledged sync.
        (_, Durability::OnSync) => done - done % SYNC_EVERY,
        (_, Durability::None) => 0,
    }
}

/// All states that each key has had after the ops `0..count`, beginning with the state before all ops.
fn states(subject: &Subject, count: u64) -> Vec<Vec<State>> {
    let mut states: Vec<Vec<State>> = (0..keys(subject, count)).map(|_| vec![(0, None)]).collect();
    for number in 0..count {
        match op(subject, number) {
            WriteOp::Put(blobs) => {
                for (key, blob) in blobs {
                    states[key.id as usize].push((number, Some(blob)));
                }
            }
            WriteOp::Delete(key) => states[key.id as usize].push((number, None)),
            WriteOp::Sync => {}
        }
    }
    states
}

/// A batch in progress must be there as a whole or not at all.
fn expect_all_or_none(subject: &Subject, done: u64, found: &[Option<Vec<u8>>]) -> Result<()> {
    let WriteOp::Put(blobs) = op(subject, done) else { return Ok(()) };
    let there = blobs.iter().filter(|(key, blob)| found[key.id as usize].as_ref() == Some(blob)).count();
    ensure!(
        there == 0 || there == blobs.len(),
        "{there} of {} blobs of one batch are there after the kill",
        blobs.len()
    );
    Ok(())
}

/// Kills the program that started a server: the server must end too.
pub fn ends_with_the_program(case: &Case) -> Result<()> {
    let (home, mut writer) = Writer::start(case, 5)?;
    ensure!(!victims(case.subject, &home, &writer)?.is_empty());
    writer.child.kill()?;
    writer.child.wait()?;
    let left = processes::wait_until_none(PATIENCE, || processes::using(&home.store));
    ensure!(left.is_empty(), "processes outlive the program that started them: {left:?}");
    Ok(())
}

/// Kills the supervisor: the server must end, with everything that it has started.
pub fn ends_with_its_supervisor(case: &Case) -> Result<()> {
    let (home, writer) = Writer::start(case, 5)?;
    let supervisors: Vec<_> =
        processes::using(&home.store).into_iter().filter(processes::Process::is_supervisor).collect();
    ensure!(!supervisors.is_empty(), "no supervisor was found");
    supervisors.iter().for_each(processes::Process::kill);
    let program = writer.child.id() as i32;
    let left = processes::wait_until_none(PATIENCE, || {
        let mut using = processes::using(&home.store);
        using.retain(|process| process.pid != program);
        using
    });
    ensure!(left.is_empty(), "processes outlive their supervisor: {left:?}");
    Ok(())
}
