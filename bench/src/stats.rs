//! Arithmetic over samples.

/// The value below which this part of the samples lies, by the nearest rank; sorts them.
pub(crate) fn percentile(samples: &mut [f64], part: f64) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let rank = (part * samples.len() as f64).ceil() as usize;
    samples.get(rank.saturating_sub(1)).copied()
}

/// The middle of the samples; the mean of the middle two when they are even in number.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut samples = samples.to_vec();
    samples.sort_by(f64::total_cmp);
    let upper = *samples.get(samples.len() / 2)?;
    let lower = *samples.get((samples.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// Jain's index: 1 when all shares are equal, 1/n when a single client got everything.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut samples, 0.5), Some(50.0));
        assert_eq!(percentile(&mut samples, 0.99), Some(99.0));
        assert_eq!(percentile(&mut samples, 1.0), Some(100.0));
        assert_eq!(percentile(&mut [7.0], 0.5), Some(7.0));
        assert_eq!(percentile(&mut [], 0.5), None);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn jains_index_tells_even_shares_from_one_winner() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[20, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 0.0);
    }
}
