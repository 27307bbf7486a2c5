//! Prometheus' text format.

use std::fmt::Write;

/// The media type.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Figures in Prometheus' text format: all samples of a name come together.
#[derive(Default)]
pub struct Exposition {
    families: Vec<Family>,
}

struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: String,
}

/// Labels with their values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    /// Adds a value that may fall.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        value: f64,
    ) {
        self.add((name, "gauge", help), "", labels, value);
    }

    /// Adds a count since the start of a process.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        value: u64,
    ) {
        self.add((name, "counter", help), "", labels, value as f64);
    }

    /// Adds a histogram. `counts`: how many values are at most as large as each bound and larger
    /// than the previous one, then how many are larger than all. `sum`: the sum of all values.
    pub fn histogram(
        &mut self,
        (name, help): (&'static str, &'static str),
        labels: Labels<'_>,
        (bounds, counts): (&[f64], &[u64]),
        sum: f64,
    ) {
        let family = (name, "histogram", help);
        let bounds = bounds.iter().map(ToString::to_string);
        let mut total = 0;
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counts) {
            total += count;
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            self.add(family, "_bucket", &labels, total as f64);
        }
        self.add(family, "_sum", labels, sum);
        self.add(family, "_count", labels, total as f64);
    }

    fn add(
        &mut self,
        (name, kind, help): (&'static str, &'static str, &'static str),
        suffix: &str,
        labels: Labels<'_>,
        value: f64,
    ) {
        let found = self.families.iter().position(|family| family.name == name);
        let place = found.unwrap_or_else(|| {
            self.families.push(Family {
                name,
                kind,
                help,
                samples: String::new(),
            });
            self.families.len() - 1
        });
        let pairs: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let pairs = if pairs.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", pairs.join(","))
        };
        let samples = &mut self.families[place].samples;
        // Writing to a `String` never fails.
        let _ = writeln!(samples, "{name}{suffix}{pairs} {value}");
    }

    /// All figures as text.
    pub fn text(self) -> String {
        let families = self.families.into_iter().map(|family| {
            let Family {
                name,
                kind,
                help,
                samples,
            } = family;
            format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
        });
        families.collect()
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_name_come_together() {
        let mut text = Exposition::default();
        text.gauge("a", "A.", &[("x", "1")], 1.5);
        text.counter("b_total", "B.", &[], 7);
        text.gauge("a", "A.", &[("x", "\"\\\n")], f64::NAN);
        text.histogram(("h", "H."), &[("x", "1")], (&[0.1, 1.0], &[2, 0, 1]), 3.5);
        let expected = "# HELP a A.\n# TYPE a gauge\na{x=\"1\"} 1.5\na{x=\"\\\"\\\\\\n\"} NaN\n\
                        # HELP b_total B.\n# TYPE b_total counter\nb_total 7\n\
                        # HELP h H.\n# TYPE h histogram\nh_bucket{x=\"1\",le=\"0.1\"} 2\n\
                        h_bucket{x=\"1\",le=\"1\"} 2\nh_bucket{x=\"1\",le=\"+Inf\"} 3\n\
                        h_sum{x=\"1\"} 3.5\nh_count{x=\"1\"} 3\n";
        assert_eq!(text.text(), expected);
    }
}
