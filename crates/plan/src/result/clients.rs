//! MPI processes of a run, each with its own workers, and what each contributed to a phase.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// MPI process of a run that several processes did together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientProcess {
    /// MPI rank, from 0. Rank 0 planned, opened the stores and compared the blobs.
    pub rank: u32,
    /// Host name.
    pub host: String,
    /// Lowest rank on the same host, if that is another process; the two share CPUs and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_host_with: Option<u32>,
    /// Number of CPUs available to it, as bound by its launcher.
    pub processors: usize,
    /// Offset of its system clock from that of rank 0 before the first phase, in nanoseconds.
    pub clock_offset_ns: i64,
    /// Uncertainty of the offset in nanoseconds: half of the shortest round-trip time.
    pub clock_uncertainty_ns: u64,
}

/// Contribution of one client to a phase in a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientRound {
    /// MPI rank.
    pub rank: u32,
    /// Acknowledged ops.
    pub ops: u64,
    /// Blob bytes.
    pub bytes: u64,
    /// Start of its first worker after the agreed start, in nanoseconds by the clock of rank 0.
    pub begin_ns: u64,
    /// End of its last worker, on the same clock.
    pub end_ns: u64,
    /// Uncertainty of both times in nanoseconds: half of the shortest round-trip time before the phase.
    pub uncertainty_ns: u64,
    /// CPU time of its workers, in nanoseconds.
    pub worker_cpu_ns: u64,
    /// CPU time of its process, in nanoseconds.
    pub process_cpu_ns: u64,
    /// Share of the phase (first start to last end of all clients) in which it had finished and waited for others, from
    /// 0 to 1.
    pub waited_share: f64,
}

impl ClientRound {
    /// Returns the seconds from its first start to its last end.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }

    /// Returns its ops per second between these; 0.0 if no time passed.
    pub fn ops_per_s(&self) -> f64 {
        if self.seconds() > 0.0 { self.ops as f64 / self.seconds() } else { 0.0 }
    }
}

/// Returns the combined ops per second while all clients were working: the sum of their rates.
pub fn common_ops_per_s(clients: &[ClientRound]) -> f64 {
    clients.iter().map(ClientRound::ops_per_s).sum()
}

/// Returns the combined ops per second from the first start to the first end of a client, assuming that each client
/// spreads its ops evenly. `None` if that span is empty or no client did any op.
pub fn first_end_ops_per_s(clients: &[ClientRound]) -> Option<f64> {
    let worked = || clients.iter().filter(|client| client.ops > 0);
    let begin = worked().map(|client| client.begin_ns).min()?;
    let end = worked().map(|client| client.end_ns).min()?;
    let until_then = |client: &ClientRound| {
        let share = end.saturating_sub(client.begin_ns) as f64 / 1e9 / client.seconds();
        client.ops as f64 * share.min(1.0)
    };
    (end > begin).then(|| worked().map(until_then).sum::<f64>() / ((end - begin) as f64 / 1e9))
}

/// Returns each client's rate relative to the median client, averaged over rounds; empty if there are no clients.
pub fn shares_of_median<'r>(rounds: impl Iterator<Item = &'r [ClientRound]>) -> Vec<(u32, f64)> {
    let mut sums: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
    for clients in rounds {
        let mut rates: Vec<f64> = clients.iter().map(ClientRound::ops_per_s).collect();
        rates.sort_by(f64::total_cmp);
        let Some(median) = rates.get(rates.len() / 2).filter(|median| **median > 0.0) else { continue };
        for client in clients {
            let (sum, count) = sums.entry(client.rank).or_default();
            (*sum, *count) = (*sum + client.ops_per_s() / median, *count + 1);
        }
    }
    sums.into_iter().map(|(rank, (sum, count))| (rank, sum / f64::from(count))).collect()
}

/// Returns the total number of CPUs of all hosts with clients, counting each host once.
pub fn processors(clients: &[ClientProcess]) -> usize {
    let of_host = |first: &ClientProcess| {
        let others = clients.iter().filter(|other| other.shares_host_with == Some(first.rank));
        others.map(|other| other.processors).fold(first.processors, usize::max)
    };
    clients.iter().filter(|client| client.shares_host_with.is_none()).map(of_host).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(ops: u64, begin_ns: u64, end_ns: u64) -> ClientRound {
        ClientRound { ops, begin_ns, end_ns, ..ClientRound::default() }
    }

    #[test]
    fn rates_are_those_of_the_common_window_and_of_the_first_end() {
        // One does 1,000 ops in 1 s, the other 1,000 in 2 s: together 1,500 a second while both are working.
        let clients = [round(1000, 0, 1_000_000_000), round(1000, 0, 2_000_000_000)];
        assert_eq!(common_ops_per_s(&clients), 1500.0);
        assert_eq!(first_end_ops_per_s(&clients), Some(1500.0));
        // A client that starts late has done less by the first end.
        let late = [round(1000, 0, 1_000_000_000), round(1000, 500_000_000, 1_500_000_000)];
        assert_eq!(first_end_ops_per_s(&late), Some(1500.0));
        assert_eq!(common_ops_per_s(&late), 2000.0);
        assert_eq!(first_end_ops_per_s(&[round(0, 0, 0)]), None);
    }

    #[test]
    fn a_slow_client_is_told_by_its_share_of_the_median() {
        let mut clients =
            [round(1000, 0, 1_000_000_000), round(1000, 0, 1_000_000_000), round(500, 0, 1_000_000_000)];
        (0..).zip(&mut clients).for_each(|(rank, client)| client.rank = rank);
        assert_eq!(shares_of_median(std::iter::once(clients.as_slice())), [(0, 1.0), (1, 1.0), (2, 0.5)]);
        assert!(shares_of_median(std::iter::once([].as_slice())).is_empty());
    }

    #[test]
    fn a_host_has_its_processors_once() {
        let client = |rank, shares_host_with, processors| ClientProcess {
            rank,
            shares_host_with,
            processors,
            ..ClientProcess::default()
        };
        assert_eq!(processors(&[client(0, None, 4), client(1, Some(0), 4), client(2, None, 2)]), 6);
    }
}
