//! Monthly costs: resources measured for each candidate, times a load, at the user's prices.

use super::super::cells::{own_memory, writes};
use super::super::compare::{Ranking, Series, rank};
use super::super::interval;
use super::super::ranking;
use super::{COLD, WARM, WRITE, eligible};
use crate::result::{
    CandidateRank, CandidateResult, Cell, CheapestChange, Costs, Interval, MachinePrice, Month, MonthlyLoad,
    MonthlyOps, Pricing, Rates, Reason, Round, RunResult, Status, UnknownCost,
};
use crate::rules::{LOAD_TIMES, MONTH_SECONDS, VERDICT_ROUNDS};

/// Bytes in a GB, as disks are sold.
const GB: f64 = 1e9;
const MILLION: f64 = 1e6;

/// Returns the monthly costs of every candidate that can be recommended.
pub fn costs(result: &RunResult, pricing: &Pricing) -> Costs {
    let works = works(result, &pricing.load);
    let unfit = result.advice.iter().flat_map(|advice| &advice.unfit);
    let unfit: Vec<&str> = unfit.map(|unfit| unfit.store.as_str()).collect();
    let meant = eligible(result).into_iter().filter(|candidate| !unfit.contains(&candidate.store.as_str()));
    let bills: Vec<Bill<'_>> =
        meant.map(|candidate| Bill::for_candidate(result, pricing, &works, candidate)).collect();
    let compared = compared(&bills);
    let ranking = ranked(&compared, None);
    let first = leaders_of(ranking.as_ref());
    let has_few_rounds = compared.iter().any(|bill| bill.rounds.len() < VERDICT_ROUNDS as usize);
    let is_wide = ranking.as_ref().is_some_and(|of| first.iter().any(|leader| of.is_wide(leader)));
    let is_decided = compared.len() < 2 || !has_few_rounds && !is_wide;
    let top = if is_decided { CandidateRank::Leads } else { CandidateRank::Undecided };
    let leads = |leaders: &[String], bill: &Bill<'_>| leaders.iter().any(|leader| leader == bill.store);
    // Without harness overhead it may be the cheapest, unless it is not even with a free machine.
    let may_lead = |bill: &Bill<'_>| {
        bill.is_bound && leads(leaders_of(ranked(&compared, Some(bill.store)).as_ref()), bill)
    };
    let place = |bill: &Bill<'_>| match compared.iter().any(|other| other.store == bill.store) {
        true if leads(first, bill) || has_few_rounds => top,
        true if may_lead(bill) => CandidateRank::NotRanked,
        true => CandidateRank::Behind,
        false if bill.is_comparable() => CandidateRank::Apart,
        false => CandidateRank::NotRanked,
    };
    let mut months: Vec<Month> = bills.iter().map(|bill| bill.month(place(bill))).collect();
    let total = |month: &Month| month.total.map_or(f64::INFINITY, |total| total.median);
    months.sort_by(|a, b| a.place.cmp(&b.place).then(total(a).total_cmp(&total(b))));
    let turns = if is_decided { turns(&compared) } else { Vec::new() };
    Costs { pricing: pricing.clone(), works, months, turns }
}

/// Returns the phases that represent the ops of a month. Every cold read comes from the device, no warm one does.
fn works(result: &RunResult, load: &MonthlyLoad) -> Vec<MonthlyOps> {
    let is_there = |phase: &&&str| result.results.iter().any(|cell| cell.phase == **phase);
    let write = WRITE.iter().find(is_there).unwrap_or(&WRITE[0]);
    let all = [
        (WARM, false, load.reads * load.cached),
        (COLD, false, load.reads * (1.0 - load.cached)),
        (*write, true, load.writes),
    ];
    let done = all.into_iter().filter(|(_, _, ops)| *ops > 0.0);
    done.map(|(phase, writes, ops)| MonthlyOps { phase: phase.to_owned(), writes, ops }).collect()
}

/// Resources that one candidate uses in a month of the load, by round.
struct Bill<'r> {
    store: &'r str,
    load: MonthlyLoad,
    rates: Rates,
    rounds: Vec<MonthlyResources>,
    memory_gb: f64,
    /// True if each op is a paid request (as in an object store), instead of the device requests. Parts of a multipart
    /// put are not counted separately.
    is_paid_by_op: bool,
    /// Share of the month in which it would be busy.
    busy: f64,
    unknown: Vec<UnknownCost>,
    /// Comparison group in each phase; `None` if it is unranked in one of them.
    group: Option<Vec<ranking::Comparability>>,
    is_bound: bool,
}

/// Resources of a month by the figures of one round. Unknown ones are 0 here, and the bill gives the reason.
#[derive(Clone, Copy, Debug, Default)]
struct MonthlyResources {
    round: u32,
    disk_gb: f64,
    read_requests: f64,
    write_requests: f64,
    cpu_seconds: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ResourceCosts {
    disk: f64,
    requests: f64,
    machine: f64,
}

impl ResourceCosts {
    fn sum(self) -> f64 {
        self.disk + self.requests + self.machine
    }
}

impl<'r> Bill<'r> {
    fn for_candidate(
        result: &'r RunResult,
        pricing: &Pricing,
        works: &[MonthlyOps],
        candidate: &'r CandidateResult,
    ) -> Bill<'r> {
        let store = candidate.store.as_str();
        let mut bill = Bill {
            store,
            load: pricing.load,
            rates: pricing.prices.rates_for(&candidate.adapter, store),
            rounds: Vec::new(),
            memory_gb: 0.0,
            is_paid_by_op: candidate.traits.is_paid_by_request,
            busy: 0.0,
            unknown: Vec::new(),
            group: None,
            is_bound: false,
        };
        if candidate.traits.is_external {
            bill.unknown.push(UnknownCost::Elsewhere);
            return bill;
        }
        let mut cells = Vec::new();
        for work in works {
            let found = result.cell(store, &work.phase);
            match found.filter(|cell| cell.status == Status::Measured && !cell.rounds.is_empty()) {
                Some(cell) => cells.push((work, cell)),
                None => bill.unknown.push(UnknownCost::NotMeasured { phase: work.phase.clone() }),
            }
        }
        bill.take_disk(result);
        cells.iter().for_each(|(work, cell)| bill.take(work, cell));
        bill.take_memory(&cells);
        if bill.busy > 1.0 {
            bill.unknown.push(UnknownCost::TooMuch { times: bill.busy });
        }
        let is_bound = |cell: &Cell| cell.not_ranked.as_ref().is_some_and(Reason::is_bound);
        bill.is_bound = cells.iter().any(|(_, cell)| is_bound(cell));
        if cells.iter().all(|(_, cell)| ranking::has_time(cell)) {
            bill.group = Some(cells.iter().map(|(_, cell)| ranking::ranked_among(cell)).collect());
        }
        bill
    }

    /// Adds the rounds, with the disk space used in each.
    fn take_disk(&mut self, result: &RunResult) {
        let visits =
            result.store_rounds.iter().filter(|visit| visit.store == self.store && visit.error.is_none());
        for visit in visits {
            let disk_gb = visit.footprint.bytes_with(self.load.stored_bytes).unwrap_or(0.0) / GB;
            self.rounds.push(MonthlyResources { round: visit.round, disk_gb, ..MonthlyResources::default() });
        }
        let is_seen = !self.rounds.is_empty() && self.rounds.iter().all(|taken| taken.disk_gb > 0.0);
        if self.rates.gb_month.is_some() && !is_seen {
            self.unknown.push(UnknownCost::Disk);
        }
    }

    /// Adds the ops that a phase represents.
    fn take(&mut self, work: &MonthlyOps, cell: &Cell) {
        // A figure must be present in every round; otherwise the rounds without it would count as free.
        let per_op = |value: &dyn Fn(&Round) -> Option<u64>| -> Option<Vec<(u32, f64)>> {
            let one = |round: &Round| Some((round.round, value(round)? as f64 / round.ops.max(1) as f64));
            let all: Vec<(u32, f64)> = cell.rounds.iter().map(one).collect::<Option<_>>()?;
            // A figure that is 0 in all rounds was not observed, which does not mean that it is free.
            all.iter().any(|(_, value)| *value > 0.0).then_some(all)
        };
        self.rounds.retain(|taken| cell.rounds.iter().any(|round| round.round == taken.round));
        let of = |figures: &[(u32, f64)], round: u32| {
            figures.iter().find(|(known, _)| *known == round).map_or(0.0, |(_, value)| work.ops * value)
        };
        let phase = work.phase.clone();
        if self.rates.machine.is_some() {
            match per_op(&|round| round.total_cpu_ns) {
                Some(cpu) => {
                    self.rounds.iter_mut().for_each(|taken| taken.cpu_seconds += of(&cpu, taken.round) / 1e9)
                }
                None => self.unknown.push(UnknownCost::Processor { phase: phase.clone() }),
            }
        }
        // Warm reads cause no device requests by definition, and the load says how many reads are warm.
        let is_cached = !work.writes && work.phase == WARM && !self.is_paid_by_op;
        if self.rates.per_million_requests.is_some() && !is_cached {
            let both = |round: &Round| match work.writes {
                _ if self.is_paid_by_op => Some(round.ops),
                true => Some(round.device_reads? + round.device_writes?),
                false => round.device_reads,
            };
            match per_op(&both) {
                Some(requests) => self.rounds.iter_mut().for_each(|taken| {
                    let slot = if work.writes { &mut taken.write_requests } else { &mut taken.read_requests };
                    *slot += of(&requests, taken.round);
                }),
                None => self.unknown.push(UnknownCost::Requests { phase }),
            }
        }
        let rate = if writes(cell) { cell.settled_ops_per_s.or(cell.ops_per_s) } else { cell.ops_per_s };
        let rate = rate.map_or(f64::MIN_POSITIVE, |rate| rate.median);
        self.busy += work.ops / (MONTH_SECONDS * rate);
    }

    /// Sets the peak memory of this process and its servers over all phases.
    fn take_memory(&mut self, cells: &[(&MonthlyOps, &Cell)]) {
        let of = |cell: &Cell| own_memory(cell).map(|bytes| bytes as f64);
        let all: Option<Vec<f64>> = cells.iter().map(|(_, cell)| of(cell)).collect();
        match all {
            Some(all) => self.memory_gb = all.into_iter().fold(0.0, f64::max) / GB,
            None if self.rates.machine.is_some() => self.unknown.push(UnknownCost::Memory),
            None => {}
        }
    }

    /// Returns the costs by one round's figures, with the ops and the stored bytes scaled by these factors.
    fn parts(&self, taken: &MonthlyResources, times: f64, stored: f64) -> ResourceCosts {
        let rates = &self.rates;
        let requests = times * (taken.read_requests + taken.write_requests);
        let paid = (requests - rates.free_requests.unwrap_or(0.0)).max(0.0);
        let share = |machine: &MachinePrice| {
            let processors = times * taken.cpu_seconds / (MONTH_SECONDS * machine.processors);
            processors.max(self.memory_gb / machine.memory_gb)
        };
        ResourceCosts {
            disk: stored * taken.disk_gb * rates.gb_month.unwrap_or(0.0),
            requests: paid / MILLION * rates.per_million_requests.unwrap_or(0.0),
            machine: rates.machine.as_ref().map_or(0.0, |machine| machine.month * share(machine)),
        }
    }

    /// Returns the total costs with the ops scaled by `times`; `None` if unknown, or if the load exceeds what was
    /// measured.
    fn total(&self, times: f64) -> Option<Interval> {
        let is_too_much = |unknown: &UnknownCost| matches!(unknown, UnknownCost::TooMuch { .. });
        let is_known = self.unknown.iter().all(is_too_much) && times * self.busy <= 1.0;
        if is_known { self.mean(|taken| self.parts(taken, times, 1.0).sum()) } else { None }
    }

    /// Averages over the rounds.
    fn mean(&self, of: impl Fn(&MonthlyResources) -> f64) -> Option<Interval> {
        interval::mean(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    fn is_comparable(&self) -> bool {
        self.group.is_some() && self.total(1.0).is_some()
    }

    fn month(&self, place: CandidateRank) -> Month {
        let mean = |part: &dyn Fn(&MonthlyResources) -> f64| self.mean(part).map_or(0.0, |mean| mean.median);
        let has = |is_such: fn(&UnknownCost) -> bool| {
            !self.rounds.is_empty()
                && !self.unknown.iter().any(|unknown| is_such(unknown) || is_whole(unknown))
        };
        let (rates, total) = (&self.rates, self.total(1.0));
        let disk = rates.gb_month.filter(|_| has(|unknown| *unknown == UnknownCost::Disk));
        let requests = rates
            .per_million_requests
            .filter(|_| has(|unknown| matches!(unknown, UnknownCost::Requests { .. })));
        let is_of_machine =
            |unknown: &UnknownCost| matches!(unknown, UnknownCost::Processor { .. } | UnknownCost::Memory);
        let machine = rates.machine.filter(|_| has(is_of_machine));
        let year = |growth: f64| (1.0 + growth).powi(12);
        let later = |growth| mean(&|taken| self.parts(taken, 1.0, year(growth)).sum());
        let million = |ops: f64, of: fn(&MonthlyResources) -> f64| {
            let price = requests.filter(|_| ops > 0.0)?;
            self.mean(|taken| of(taken) / ops * price)
        };
        Month {
            store: self.store.to_owned(),
            place,
            is_bound: self.is_bound,
            disk: disk.map(|_| mean(&|taken| self.parts(taken, 1.0, 1.0).disk)),
            requests: requests.map(|_| mean(&|taken| self.parts(taken, 1.0, 1.0).requests)),
            machine: machine.map(|_| mean(&|taken| self.parts(taken, 1.0, 1.0).machine)),
            total,
            in_a_year: total.and(self.load.growth).map(later),
            million_reads: million(self.load.reads, |taken| taken.read_requests),
            million_writes: million(self.load.writes, |taken| taken.write_requests),
            unknown: self.unknown.clone(),
        }
    }
}

/// True if nothing can be said about the month then.
fn is_whole(unknown: &UnknownCost) -> bool {
    matches!(unknown, UnknownCost::Elsewhere | UnknownCost::NotMeasured { .. } | UnknownCost::TooMuch { .. })
}

/// Returns the largest group of candidates with the same promises.
fn compared<'b, 'r>(bills: &'b [Bill<'r>]) -> Vec<&'b Bill<'r>> {
    let mut groups: Vec<Vec<&Bill<'_>>> = Vec::new();
    for bill in bills.iter().filter(|bill| bill.is_comparable()) {
        match groups.iter_mut().find(|group| group[0].group == bill.group) {
            Some(group) => group.push(bill),
            None => groups.push(vec![bill]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups.into_iter().next().unwrap_or_default()
}

/// Ranks candidates by their costs, paired by round: those that no other is proved cheaper than lead. The candidate
/// `without_machine`, if any, is charged nothing for its machine.
fn ranked(compared: &[&Bill<'_>], without_machine: Option<&str>) -> Option<Ranking> {
    let series = |bill: &&Bill<'_>| {
        let paid = if without_machine == Some(bill.store) { 0.0 } else { 1.0 };
        let months_for_one = |taken: &MonthlyResources| {
            let parts = bill.parts(taken, 1.0, 1.0);
            let month = ResourceCosts { machine: paid * parts.machine, ..parts }.sum();
            (taken.round, 1.0 / month.max(f64::MIN_POSITIVE))
        };
        let rates = bill.rounds.iter().map(months_for_one).collect();
        Series { label: bill.store.to_owned(), rates, slack: 0.0 }
    };
    let series: Vec<Series> = compared.iter().map(series).collect();
    rank(&series)
}

fn leaders_of(ranking: Option<&Ranking>) -> &[String] {
    ranking.map_or(&[][..], |ranking| &ranking.leaders)
}

/// Returns the cheapest candidate with the ops scaled by `times`.
fn cheapest<'r>(compared: &[&Bill<'r>], times: f64) -> Option<&'r str> {
    let known = compared.iter().filter_map(|bill| Some((bill.total(times)?.median, bill.store)));
    known.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, store)| store)
}

/// Finds the loads at which another candidate becomes the cheapest, by bisection between neighbours in a fine ladder of
/// loads.
fn turns(compared: &[&Bill<'_>]) -> Vec<CheapestChange> {
    /// Number of loads in the ladder, each 6 % above the previous one.
    const STEPS: i32 = 160;
    /// Number of bisections, after which a load is known more precisely than any price.
    const HALVES: u32 = 40;
    if compared.len() < 2 {
        return Vec::new();
    }
    let at = |step: i32| LOAD_TIMES.powf(2.0 * f64::from(step) / f64::from(STEPS) - 1.0);
    let mut turns = Vec::new();
    for step in 0..STEPS {
        let (mut low, mut high) = (at(step), at(step + 1));
        let before = cheapest(compared, low);
        if cheapest(compared, high) == before {
            continue;
        }
        for _ in 0..HALVES {
            let half = (low * high).sqrt();
            let side = if cheapest(compared, half) == before { &mut low } else { &mut high };
            *side = half;
        }
        turns.push(CheapestChange { times: high, cheapest: cheapest(compared, high).map(str::to_owned) });
    }
    turns
}

#[cfg(test)]
mod tests;
