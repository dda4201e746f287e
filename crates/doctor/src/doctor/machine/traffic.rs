//! Checks of the network, as seen from this machine.

use crate::doctor::facts::{SubjectFacts, UnknownReason, growth, text};
use crate::doctor::finding::{Answer, Check, CheckQuestion, CheckResult, LeastAges, share_of, when};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "share of TCP segments that were sent again",
        threshold: "look: above 1 %; cannot tell: less than 100 segments between the looks",
        reason: "Each delays a small answer by 200 ms or more. A few are normal across the internet.",
        source: "RetransSegs and OutSegs of /proc/net/snmp",
        shown_by: "nstat -az TcpRetransSegs TcpOutSegs",
        ..Check::new("network-retransmits", CheckQuestion::Network, retransmits)
    },
    Check {
        figure: "connections refused because a program's accept queue was full",
        threshold: "look: any between the looks",
        reason: "The client tries again after a second, which appears in no log.",
        source: "ListenOverflows of /proc/net/netstat",
        shown_by: "nstat -az TcpExtListenOverflows",
        ..Check::new("network-refused", CheckQuestion::Network, refused)
    },
    Check {
        figure: "share of an interface's packets that were damaged",
        threshold: "look: above 1 %",
        reason: "The cause is a cable, a port or a driver. Packets dropped for other reasons are not counted.",
        after: "awesome-prometheus-alerts (1 %)",
        source: "rx_errors and tx_errors of /sys/class/net/INTERFACE/statistics",
        shown_by: "ip -s link",
        ..Check::new("network-errors", CheckQuestion::Network, errors)
    },
];

fn retransmits(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let (again, sent) = (facts.growth("tcp", "RetransSegs")?, facts.growth("tcp", "OutSegs")?);
    if sent < 100.0 {
        return Err(format!("only {sent:.0} segments were sent between the looks"));
    }
    // OutSegs does not include retransmitted segments.
    let share = share_of(again, sent);
    let figure = format!("{} of {sent:.0} segments were sent again", units::percent(share));
    Ok(CheckResult::new(when(share > 0.01, Answer::Look), share, figure))
}

fn refused(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let refused = facts.growth("tcp", "ListenOverflows")?;
    let figure = format!("{refused:.0} connections turned away");
    Ok(CheckResult::new(when(refused > 0.0, Answer::Look), refused, figure))
}

fn errors(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let pairs = facts.pairs("interfaces", "interface")?;
    let shares = pairs.iter().filter(|pair| pair.0.is_some()).map(|pair| {
        let sum = |names: [&str; 2]| names.iter().map(|name| growth(pair, name)).sum::<f64>();
        let packets = sum(["rx_packets", "tx_packets"]);
        (sum(["rx_errors", "tx_errors"]) / packets.max(1.0), text(pair.1, "interface"))
    });
    let worst = shares.max_by(|a, b| a.0.total_cmp(&b.0));
    let (share, name) = worst.ok_or("there is no interface but the loopback")?;
    let figure = format!("{} of the packets of `{name}` were damaged", units::percent(share));
    Ok(CheckResult::new(when(share > 0.01, Answer::Look), share, figure))
}
