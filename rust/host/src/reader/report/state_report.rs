//! What each partition of a root does.

use holdfast_core::Result;
use serde::Serialize;

use super::condition::PartitionCondition;
use crate::net::metrics::{HostMetrics, PartitionMetrics};
use crate::protocol::{Epoch, OperatorName, PartitionId};
use crate::reader::state_reader::StateReader;

/// What the partitions of a root do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateReport {
    /// The newest final epoch; none before the first.
    pub epoch: Option<Epoch>,
    /// The partitions of all operators, by operator and number. A partition that two hosts report,
    /// for example while it moves, comes twice.
    pub partitions: Vec<PartitionReport>,
}

/// What a partition of an operator does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionReport {
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The id of its host; none if no host answers.
    pub host: Option<String>,
    /// What is wrong with it.
    pub condition: PartitionCondition,
    /// The host's figures of it; none if no host answers.
    pub figures: Option<PartitionMetrics>,
}

impl StateReader {
    /// Reports what each partition does, and what is wrong with it.
    ///
    /// A reader without the right to read the addresses of the hosts has no figures.
    ///
    /// # Errors
    /// As [`StateReader::epoch`].
    pub fn report(&self) -> Result<StateReport> {
        let epoch = self.epoch()?;
        let operators = self.root.operators.names()?;
        let partitions = self.routing.chosen(None)?;
        let hosts = self.metrics();
        let hosts = hosts.inspect_err(|error| log::info!("a report has no figures: {error}"));
        Ok(StateReport {
            epoch,
            partitions: reports(epoch, operators, &partitions, hosts.ok()),
        })
    }
}

/// `hosts`: the hosts' figures; none if their addresses cannot be read.
fn reports(
    epoch: Option<Epoch>,
    mut operators: Vec<OperatorName>,
    partitions: &[PartitionId],
    hosts: Option<Vec<HostMetrics>>,
) -> Vec<PartitionReport> {
    let is_known = hosts.is_some();
    let mut served: Vec<(String, PartitionMetrics)> = Vec::new();
    for host in hosts.unwrap_or_default() {
        let of_host = host.partitions.into_iter();
        served.extend(of_host.map(|figures| (host.host.clone(), figures)));
    }
    operators.extend(served.iter().map(|(_, figures)| figures.operator.clone()));
    operators.sort_unstable();
    operators.dedup();
    let mut reports = Vec::new();
    for operator in operators {
        for partition in partitions {
            let of_partition = |(_, figures): &&(String, PartitionMetrics)| {
                figures.operator == operator && figures.partition == *partition
            };
            let report = |host: Option<&(String, PartitionMetrics)>| PartitionReport {
                operator: operator.clone(),
                partition: *partition,
                host: host.map(|(host, _)| host.clone()),
                condition: if is_known {
                    PartitionCondition::of(epoch, host.map(|(_, figures)| figures))
                } else {
                    PartitionCondition::unknown()
                },
                figures: host.map(|(_, figures)| figures.clone()),
            };
            let before = reports.len();
            reports.extend(
                served
                    .iter()
                    .filter(of_partition)
                    .map(|one| report(Some(one))),
            );
            if reports.len() == before {
                reports.push(report(None));
            }
        }
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::report::ConditionName;

    #[test]
    fn each_partition_of_each_operator_is_reported() {
        let name = |name: &str| OperatorName::new(name).expect("a name");
        let host = |id: &str, partitions: &[(&str, i32)]| HostMetrics {
            host: id.to_owned(),
            partitions: partitions
                .iter()
                .map(|(operator, number)| {
                    PartitionMetrics::new(name(operator), PartitionId(*number))
                })
                .collect(),
            ..HostMetrics::default()
        };
        let hosts = vec![host("x", &[("b", 1), ("c", 0)]), host("y", &[("b", 1)])];
        let partitions = [PartitionId(0), PartitionId(1)];
        let found = reports(None, vec![name("b"), name("a")], &partitions, Some(hosts));
        let found: Vec<(&str, i32, Option<&str>)> = found
            .iter()
            .map(|one| {
                let is_unserved = one.condition.name == ConditionName::Unserved;
                assert_eq!(is_unserved, one.figures.is_none());
                (one.operator.as_str(), one.partition.0, one.host.as_deref())
            })
            .collect();
        let expected = [
            ("a", 0, None),
            ("a", 1, None),
            ("b", 0, None),
            ("b", 1, Some("x")),
            ("b", 1, Some("y")),
            ("c", 0, Some("x")),
            ("c", 1, None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn without_the_addresses_of_hosts_no_partition_counts_as_unserved() {
        let operator = OperatorName::new("a").expect("a name");
        let partitions = [PartitionId(0), PartitionId(1)];
        let found = reports(Some(Epoch(3)), vec![operator], &partitions, None);
        let conditions: Vec<ConditionName> = found.iter().map(|one| one.condition.name).collect();
        assert_eq!(conditions, [ConditionName::Unknown; 2]);
    }
}
