//! Clients in one process: real workers, real stores, and channels in place of MPI.

use crate::engine::work::ResolvePlan;
use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::corpus::{CorpusSpecification, Sizes};
use crate::engine::ops::{OpDistribution, lists};
use crate::engine::resources::IdleActivity;
use crate::engine::workers::log::LogOps;
use crate::host::ranks::HostIdentity;
use crate::plan::{Arrivals, Length, Order as Orders, PlanText, ReadSink, Workload, defaults};
use crate::store::{Capabilities, Common, Durability, Mode, Options};
use crate::stores;

#[derive(Debug)]
struct Channels {
    rank: usize,
    to: HashMap<usize, Sender<Vec<u8>>>,
    from: HashMap<usize, Mutex<Receiver<Vec<u8>>>>,
}

impl MessagePassing for Channels {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.to.len() + 1
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<()> {
        self.to[&to].send(message.to_vec()).map_err(|_gone| anyhow!("nobody is there"))
    }

    fn received(&self, from: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.from[&from].lock().unwrap().try_recv().ok())
    }

    fn end(self: Box<Self>) {}
}

/// Connects rank 0 with all other ranks, in both directions.
fn star(ranks: usize) -> Vec<Channels> {
    let mut all: Vec<Channels> =
        (0..ranks).map(|rank| Channels { rank, to: HashMap::new(), from: HashMap::new() }).collect();
    for rank in 1..ranks {
        for (one, other) in [(0, rank), (rank, 0)] {
            let (sender, receiver) = channel();
            all[one].to.insert(other, sender);
            all[other].from.insert(one, Mutex::new(receiver));
        }
    }
    // Rank 0 knows all others, and each of those knows only rank 0.
    all
}

/// A clock that is ahead of this machine's by a number of nanoseconds.
struct Ahead(HostClock, u64);

impl Clock for Ahead {
    fn now(&self) -> u64 {
        self.0.now() + self.1
    }

    fn sleep_until(&self, moment: u64) {
        self.0.sleep_until(moment.saturating_sub(self.1));
    }
}

fn introduction() -> Introduction {
    Introduction { program: "this".to_owned(), whereabouts: HostIdentity::here() }
}

const PLAN: &str =
    "stores = [\"null\"]\nphases = [\"fill\"]\n[corpus]\nsource = \"uniform:1kB-9kB\"\nblobs = 400\n";

/// A test, which gets the clients of rank 0, a corpus, a clock and a directory.
type Test<'a> = &'a (dyn Fn(&Clients, &Corpus, &HostClock, &Path) + Sync);

/// Stops the serving threads if a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Starts clients of a plan, each with a clock that is `ahead` by this many nanoseconds, and runs a test as rank 0.
fn with_clients(plan: &str, ahead: &[u64], test: Test<'_>) {
    let mut posts = star(ahead.len() + 1).into_iter();
    let own = posts.next().unwrap();
    let stop = AtomicBool::new(false);
    let dir = tempfile::tempdir_in(".").unwrap();
    std::thread::scope(|scope| {
        // If a test fails, the scope must not wait for clients that wait for rank 0.
        let _ends = Ends(&stop);
        for (post, ahead) in posts.zip(ahead) {
            let stop = &stop;
            scope.spawn(move || {
                let clock = Ahead(HostClock::best(), *ahead);
                let wall = || machine::wall_ns() + *ahead as i64;
                let served = ServingClient {
                    post: &post,
                    clock: &clock,
                    wall: &wall,
                    introduction: introduction(),
                    design: |plan, candidates| PlanText::parse(plan)?.design(candidates),
                    stop,
                };
                let served = served.serve();
                assert!(served.is_ok() || stop.load(Ordering::Relaxed), "{served:?}");
            });
        }
        let clients = Clients::gather(Box::new(own), introduction()).unwrap();
        let mut plan = PlanText::parse(plan).unwrap().resolve(true).unwrap();
        plan.clients = clients.count();
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        clients.check(&plan).unwrap();
        clients.prepare(&plan, std::slice::from_ref(&corpus), dir.path()).unwrap();
        let clock = HostClock::best();
        test(&clients, &corpus, &clock, dir.path());
        clients.end();
    });
}

fn load(kind: OpKind, order: Orders) -> Workload {
    Workload { order, ..Workload::new(kind, Length::Pilot) }
}

/// Runs a job in stores of which each process has its own. Returns the sum of the tallies, and the share of each client.
fn done(
    clients: &Clients,
    (corpus, clock, dir): (&Corpus, &HostClock, &Path),
    state: &State,
    job: &Job,
) -> Result<(Tally, Vec<ClientRound>)> {
    done_with(clients, (0, corpus), (clock, dir), state, job)
}

fn done_with(
    clients: &Clients,
    (corpus_index, corpus): (usize, &Corpus),
    (clock, dir): (&HostClock, &Path),
    state: &State,
    job: &Job,
) -> Result<(Tally, Vec<ClientRound>)> {
    let options = Options::default();
    let common = Common::new(dir.to_owned());
    let setup = Setup {
        dir,
        common: &common,
        mode: Mode::Create,
        durability: Durability::None,
        cache_bytes: 0,
        fits: true,
        blob_bytes_max: corpus.largest(),
        store_bytes_max: corpus.bytes(),
        keys_max: corpus.blobs() + 1,
        workers: 2 * clients.count(),
        op_timeout: Duration::from_secs(5),
        options: &options,
        join_token: None,
    };
    let store = (stores::NULL.open)(&setup).unwrap();
    let stop = AtomicBool::new(false);
    let pool = WorkerPool::new(clock, store.as_ref(), corpus, 2, &stop);
    let shared =
        SharedStore { setup, adapter: "null", way: Way::Each, corpus_index, corpus, state, own: None };
    clients.run(pool, &shared, job, &mut [Meter::new(None, IdleActivity::default())])
}

#[test]
fn all_do_their_parts_and_every_op_is_counted_once() {
    with_clients(PLAN, &[0, 5_000_000_000, 77], &|clients, corpus, clock, dir| {
        let mut state = State::empty(corpus);
        let sessions = 2 * clients.count();
        let puts =
            lists(&load(OpKind::Put, Orders::Sequential), &state, 400, 1, OpDistribution::Own(sessions), 7);
        let job = Job::once(puts);
        let (tally, rows) = done(clients, (corpus, clock, dir), &state, &job).unwrap();
        assert_eq!((tally.ops, tally.bytes, tally.counters.errors), (400, corpus.bytes(), 0));
        assert_eq!(rows.iter().map(|row| row.ops).collect::<Vec<u64>>(), [100; 4]);
        // The first op of each worker is recorded separately; all others are in the histogram, each once.
        assert_eq!((tally.first_ops_ns.len(), tally.service().len()), (sessions, 400 - sessions as u64));
        job.lists.iter().flatten().for_each(|op| state.apply(op));
        // Everything that another client has put can be read, and nothing else.
        let reads = lists(&load(OpKind::Get, Orders::Once), &state, 400, 1, OpDistribution::Own(sessions), 9);
        let (tally, _) = done(clients, (corpus, clock, dir), &state, &Job::once(reads)).unwrap();
        assert_eq!((tally.ops, tally.bytes, tally.counters.errors), (400, corpus.bytes(), 0));
    });
}

#[test]
fn a_schedule_is_shared_and_no_op_is_left_out() {
    with_clients(PLAN, &[0, 1_000], &|clients, corpus, clock, dir| {
        let mut state = State::empty(corpus);
        state.alive.fill(true);
        let list = lists(&load(OpKind::Get, Orders::Once), &state, 400, 1, OpDistribution::Shared, 7);
        let open = Open {
            arrivals: Arrivals::Poisson,
            ops_per_s: 4000.0,
            seconds: f64::INFINITY,
            ops_max: 400,
            seed: 3,
            part: ProcessShare::WHOLE,
        };
        let job = Job { open: Some(open), use_bytes: ReadSink::Touch, ..Job::once(list) };
        let (tally, rows) = done(clients, (corpus, clock, dir), &state, &job).unwrap();
        assert_eq!((tally.ops, tally.bytes, tally.counters.errors), (400, corpus.bytes(), 0));
        assert_eq!(rows.iter().map(|row| row.ops).collect::<Vec<u64>>(), [134, 133, 133]);
        // No response can be shorter than the service, whatever the clocks show.
        assert!(tally.response().max() >= tally.service().min());
    });
}

#[test]
fn a_log_is_replayed_at_its_times_and_each_object_by_one_client() {
    // 400 requests of 40 objects in 0.4 s: reads, and puts of half of the objects.
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = dir.path().join("log");
    let line = |n: u64| {
        let (key, op) = (n * 7 % 40, if n.is_multiple_of(3) && n * 7 % 40 < 20 { "put" } else { "get" });
        format!("1.{n:03},{op},{key},{}\n", 100 + key)
    };
    std::fs::write(&log, "time,op,key,bytes\n".to_owned() + &(0..400).map(line).collect::<String>()).unwrap();
    let plan = format!(
        "stores = ['null']\nphases = ['fill', 'replay']\n[corpus]\ntrace = '{}'\nsample = '100%'\n",
        log.display()
    );
    with_clients(&plan, &[0, 5_000_000_000], &|clients, corpus, clock, dir| {
        let log = corpus.log.as_ref().unwrap();
        let mut state = State::empty(corpus);
        state.alive.fill(true);
        for speed in [Some(1.0), Some(4.0), None] {
            let ops = LogOps::new(log, usize::MAX, state.generation.clone(), speed, 2);
            let job = Job { log: Some(ops.of_part(ProcessShare::WHOLE)), ..Job::once(Vec::new()) };
            let (tally, rows) = done(clients, (corpus, clock, dir), &state, &job).unwrap();
            let steps = log.steps();
            assert_eq!((tally.ops, tally.counters.errors), (steps.len() as u64, 0));
            let of = |rank: usize| steps.iter().filter(|step| step.object() as usize % 6 / 2 == rank).count();
            let expected: Vec<u64> = (0..3).map(|rank| of(rank) as u64).collect();
            assert_eq!(rows.iter().map(|row| row.ops).collect::<Vec<u64>>(), expected);
            let Some(speed) = speed else { continue };
            // The last one is due as long after the common start as in the log.
            let due = (tally.last_due - tally.begin) as f64;
            let wanted = log.seconds() * 1e9 / speed;
            assert!((due - wanted).abs() < 1000.0, "{due} ns instead of {wanted} ns");
            assert!(tally.end >= tally.last_due && tally.wake_late.is_some());
        }
    });
}

#[test]
fn a_clock_that_is_ahead_is_found() {
    const AHEAD: u64 = 3_600_000_000_000;
    with_clients(PLAN, &[AHEAD, 0], &|clients, corpus, clock, dir| {
        let stop = AtomicBool::new(false);
        let known = clients.known(clock, &stop).unwrap();
        for (client, ahead) in known.iter().zip([0, AHEAD as i64, 0]) {
            let wrong = (client.clock_offset_ns - ahead).unsigned_abs();
            // The two system clocks are read at slightly different moments.
            assert!(wrong <= client.clock_uncertainty_ns + 1_000_000, "{client:?}");
        }
        // Still, all clients begin at the same instant; an error of an hour would show.
        let mut state = State::empty(corpus);
        state.alive.fill(true);
        let reads = lists(&load(OpKind::Get, Orders::Once), &state, 400, 1, OpDistribution::Own(6), 9);
        let (tally, rows) = done(clients, (corpus, clock, dir), &state, &Job::once(reads)).unwrap();
        assert!(rows.iter().all(|row| row.begin_ns < 600_000_000_000), "{rows:?}");
        assert!(tally.seconds(6) < 600.0);
    });
}

#[test]
fn what_four_processes_send_adds_up_to_what_one_would_have_counted() {
    use crate::engine::workers::tally::Times;
    use crate::judge::histogram::BANDS;
    let tally = || Tally::new([true; BANDS.len()], true);
    let mut whole = tally();
    let mut parts = [tally(), tally(), tally(), tally()];
    // No first op is recorded separately, because the whole would have one where the parts have four.
    for tally in parts.iter_mut().chain([&mut whole]) {
        tally.first_apart = false;
    }
    for op in 0_u64..100_000 {
        let start = op * 10_007;
        let times = Times { due: start - start.min(op % 977), start, end: start + 1 + op * op % 5_000_003 };
        for tally in [&mut parts[op as usize % 4], &mut whole] {
            tally.record(op as usize % BANDS.len(), times);
            tally.step("connect", op % 1013);
            tally.ops += 1;
            (tally.blobs, tally.bytes, tally.syncs) =
                (tally.blobs + 1, tally.bytes + op, tally.syncs + op % 2);
            tally.counters.retries += op % 3;
        }
    }
    let mut all: Option<Tally> = None;
    for part in &parts {
        let line = serde_json::to_string(&part.sent(5).unwrap()).unwrap();
        let sent: crate::engine::workers::tally::SentTally = serde_json::from_str(&line).unwrap();
        let received = sent.received(5).unwrap();
        match &mut all {
            Some(all) => all.add(&received),
            None => all = Some(received),
        }
    }
    let all = all.unwrap();
    assert_eq!(all.service(), whole.service());
    assert_eq!(all.response(), whole.response());
    assert_eq!(all.histograms().unwrap(), whole.histograms().unwrap());
    let numbers = |tally: &Tally| (tally.ops, tally.blobs, tally.bytes, tally.syncs, tally.counters.clone());
    assert_eq!(numbers(&all), numbers(&whole));
}

#[test]
fn one_that_cannot_open_the_store_ends_the_job_for_all_and_the_next_is_done() {
    with_clients(PLAN, &[0, 0], &|clients, corpus, clock, dir| {
        let mut state = State::empty(corpus);
        state.alive.fill(true);
        let reads = lists(&load(OpKind::Get, Orders::Once), &state, 400, 1, OpDistribution::Own(6), 9);
        // A corpus that was never announced, so that the clients cannot build it.
        let whole = Corpus::random("other", Sizes::Fixed(9000), 400, 1).unwrap();
        let job = Job::once(reads);
        let refused = done_with(clients, (9, &whole), (clock, dir), &state, &job);
        let why = format!("{:#}", refused.unwrap_err());
        assert!(why.contains("client 1 on") && why.contains("never announced"), "{why}");
        assert_eq!(clients.lost(), None);
        assert_eq!(done(clients, (corpus, clock, dir), &state, &job).unwrap().0.ops, 400);
    });
}

#[test]
fn what_can_be_shared_is_said_by_the_stores_and_invitations_follow() {
    let mut shared = 0;
    for adapter in stores::adapters() {
        let caps: Capabilities = (adapter.caps)(&defaults(adapter));
        if let Way::One(why) = caps.clients {
            assert!(!why.is_empty(), "{}", adapter.name);
        } else {
            // Sharing requires several sessions at once.
            assert!(caps.many, "{}", adapter.name);
            shared += 1;
        }
    }
    assert!(shared > 5);
}

/// Number of messages and bytes of a phase that rank 0 has sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Traffic {
    sent: u64,
    sent_bytes: u64,
    heard: u64,
    heard_bytes: u64,
}

/// Clients that answer at once, so that the duration of a phase is rank 0's own.
#[derive(Debug)]
struct Scripted {
    ranks: usize,
    clock: HostClock,
    report: Vec<u8>,
    answers: Mutex<HashMap<usize, std::collections::VecDeque<Vec<u8>>>>,
    traffic: std::sync::Arc<Mutex<Traffic>>,
}

impl Scripted {
    fn new(ranks: usize, report: JobResult) -> Scripted {
        let here = written(&ClientReply::Here(introduction()), &[]).unwrap();
        let report = written(&ClientReply::Done(Box::new(report)), &[]).unwrap();
        let answers = (1..ranks).map(|rank| (rank, [here.clone()].into())).collect();
        let clock = HostClock::best();
        Scripted { ranks, clock, report, answers: Mutex::new(answers), traffic: std::sync::Arc::default() }
    }
}

impl MessagePassing for Scripted {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<()> {
        let answer = match read(message)?.0 {
            ClientRequest::Work(_) => written(&ClientReply::Ready, &[])?,
            ClientRequest::Ping => {
                written(&ClientReply::Pong { now: self.clock.now(), wall: machine::wall_ns() }, &[])?
            }
            ClientRequest::Begin(_) => self.report.clone(),
            _ => return Ok(()),
        };
        self.answers.lock().unwrap().entry(to).or_default().push_back(answer);
        let mut traffic = self.traffic.lock().unwrap();
        (traffic.sent, traffic.sent_bytes) = (traffic.sent + 1, traffic.sent_bytes + message.len() as u64);
        Ok(())
    }

    fn received(&self, from: usize) -> Result<Option<Vec<u8>>> {
        let message = self.answers.lock().unwrap().entry(from).or_default().pop_front();
        if let Some(message) = &message {
            let mut traffic = self.traffic.lock().unwrap();
            (traffic.heard, traffic.heard_bytes) =
                (traffic.heard + 1, traffic.heard_bytes + message.len() as u64);
        }
        Ok(message)
    }

    fn end(self: Box<Self>) {}
}

/// A tally like that of a server's worker: `ops` ops of one size band, with log-normal times around 200 us.
fn usual_tally(ops: u64) -> Tally {
    use crate::engine::workers::tally::Times;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    let mut bands = [false; crate::judge::histogram::BANDS.len()];
    bands[0] = true;
    let mut tally = Tally::new(bands, true);
    tally.first_apart = false;
    let mut random = SmallRng::seed_from_u64(1);
    for op in 0..ops {
        let spread: f64 = (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0;
        let start = 5 + op * 200_000;
        tally.record(0, Times { due: start, start, end: start + (200_000.0 * (spread * 0.6).exp()) as u64 });
        tally.ops += 1;
    }
    tally
}

/// Returns the traffic of rank 0 in a phase of this many ranks, each with two lists of two ops.
fn phase_of(ranks: usize) -> Traffic {
    const OPS: u64 = 20_000;
    let tally = usual_tally(OPS);
    let scripted = Scripted::new(ranks, JobResult { tally: tally.sent(5).unwrap(), process_cpu_ns: 7 });
    let traffic = std::sync::Arc::clone(&scripted.traffic);
    let clients = Clients::gather(Box::new(scripted), introduction()).unwrap();
    *traffic.lock().unwrap() = Traffic::default();
    let mut plan = PlanText::parse(PLAN).unwrap().resolve(true).unwrap();
    plan.clients = ranks;
    let request = CorpusSpecification { blobs_max: Some(2 * 2000), ..plan.corpora[0].request.clone() };
    let corpus = Corpus::build(&request).unwrap();
    let state = State::empty(&corpus);
    let puts = lists(
        &load(OpKind::Put, Orders::Sequential),
        &state,
        2 * 2 * ranks as u64,
        1,
        OpDistribution::Own(2 * ranks),
        7,
    );
    let dir = tempfile::tempdir_in(".").unwrap();
    let (all, rows) =
        done(&clients, (&corpus, &HostClock::best(), dir.path()), &state, &Job::once(puts)).unwrap();
    // No op of another rank is lost or averaged.
    let others = ranks as u64 - 1;
    assert_eq!((rows.len() as u64, all.ops), (others + 1, others * OPS + 4));
    // The first op of each of rank 0's two workers is recorded separately.
    assert_eq!(all.service().len(), others * OPS + 2);
    assert_eq!(rows.iter().skip(1).map(|row| row.ops).sum::<u64>(), others * OPS);
    *traffic.lock().unwrap()
}

#[test]
fn a_phase_of_a_thousand_ranks_is_ten_messages_each_way_for_each() {
    // Each rank's report has complete histograms, which are read and added.
    let is_quick = std::env::var("BLOBWISE_TRIALS").is_ok_and(|choice| choice == "quick");
    for ranks in [2, if is_quick { 100 } else { 1000 }] {
        let traffic = phase_of(ranks);
        let Traffic { sent, sent_bytes, heard, heard_bytes } = traffic;
        let others = ranks as u64 - 1;
        // Sent: the task, eight clock requests and the start. Received: ready, eight times and the report.
        assert_eq!((sent, heard), (10 * others, 10 * others));
        // The task has ops of 21 B each, and the report has complete histograms.
        assert!(sent_bytes / others < 2000 && heard_bytes / others < 8000, "{traffic:?}");
    }
}
