//! x
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    #[cfg(redlock_sim)]
    for seed in a[0]..a[1] {
        let r = redlock_tests::sim::run_seed(seed, a.len() > 2);
        for l in r.timeline {
            println!("{l}");
        }
        println!("{seed} {:x} {:?}", r.hash, r.violations);
    }
}
