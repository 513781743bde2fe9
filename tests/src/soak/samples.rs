//! The resources of a process over time: memory and descriptors must stay flat.

use std::{collections::BTreeMap, fs, time::Duration};

/// Below this many samples nothing is said: a client that has just started grows.
const ENOUGH: usize = 240;

/// By how much the last quarter may be above the second, in KiB: what an allocator keeps for later.
const MEMORY_LEEWAY: u64 = 1024;

/// The same for descriptors: as many as there are connections that are being replaced.
const FILES_LEEWAY: u64 = 5;

/// At one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// Since the start of the run.
    pub(super) at: Duration,
    /// Resident, in KiB.
    pub(super) memory: u64,
    pub(super) files: u64,
}

impl Sample {
    /// Of a living process. `None` for a process that is dead or gone.
    pub(super) fn of(process: i32, at: Duration) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let memory = memory.trim().strip_suffix("kB")?.trim().parse().ok()?;
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
        Some(Self { at, memory, files: u64::try_from(files).ok()? })
    }
}

/// All samples, by the name of the process.
#[derive(Debug, Default)]
pub(super) struct Samples(BTreeMap<String, Vec<Sample>>);

impl Samples {
    pub(super) fn add(&mut self, name: &str, sample: Sample) {
        self.0.entry(name.to_owned()).or_default().push(sample);
    }

    /// Those that lived long enough to say something.
    pub(super) fn courses(&self) -> Vec<Course> {
        let long = self.0.iter().filter(|(_, samples)| samples.len() >= ENOUGH);
        long.map(|(name, samples)| Course::of(name, samples)).collect()
    }
}

/// What one process used: the medians of the four quarters of its life, and the most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) name: String,
    pub(super) memory: [u64; 4],
    pub(super) most_memory: u64,
    pub(super) files: [u64; 4],
    pub(super) most_files: u64,
}

impl Course {
    fn of(name: &str, samples: &[Sample]) -> Self {
        let quarter = |index: usize| {
            let length = samples.len() / 4;
            &samples[index * length..(index + 1) * length]
        };
        let medians = |what: fn(&Sample) -> u64| {
            [0, 1, 2, 3].map(|index| {
                let mut values: Vec<u64> = quarter(index).iter().map(what).collect();
                values.sort_unstable();
                values[values.len() / 2]
            })
        };
        let most = |what: fn(&Sample) -> u64| samples.iter().map(what).max().unwrap_or_default();
        Self {
            name: name.to_owned(),
            memory: medians(|sample| sample.memory),
            most_memory: most(|sample| sample.memory),
            files: medians(|sample| sample.files),
            most_files: most(|sample| sample.files),
        }
    }

    /// The last quarter is not above the second, which is the first after the start.
    pub(super) fn is_flat(&self) -> bool {
        let flat = |[_, second, _, last]: [u64; 4], leeway| last <= second + second / 10 + leeway;
        flat(self.memory, MEMORY_LEEWAY) && flat(self.files, FILES_LEEWAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(memory: impl Fn(u64) -> u64, files: impl Fn(u64) -> u64) -> Course {
        let mut samples = Samples::default();
        for second in 0..1000 {
            let at = Duration::from_secs(second);
            let sample = Sample { at, memory: memory(second), files: files(second) };
            samples.add("1.0", sample);
        }
        samples.courses().remove(0)
    }

    #[test]
    fn what_only_starts_or_swings_is_flat_and_what_grows_is_not() {
        assert!(course(|second| 8000 + 4000 * second.min(99) / 99, |_| 20).is_flat());
        assert!(course(|second| 8000 + second % 7 * 500, |second| 20 + second % 6).is_flat());
        assert!(!course(|second| 8000 + second * 6, |_| 20).is_flat());
        assert!(!course(|_| 8000, |second| 20 + second / 50).is_flat());
    }

    #[test]
    fn a_short_life_says_nothing() {
        let mut samples = Samples::default();
        samples.add("2.3", Sample { at: Duration::ZERO, memory: 1, files: 1 });
        assert_eq!(samples.courses(), []);
    }

    #[test]
    fn this_process_has_memory_and_files_and_one_that_is_not_there_has_none() {
        let own = i32::try_from(std::process::id()).unwrap();
        let sample = Sample::of(own, Duration::ZERO).unwrap();
        assert!(sample.memory > 100 && sample.files >= 3, "{sample:?}");
        assert_eq!(Sample::of(i32::MAX, Duration::ZERO), None);
    }
}
